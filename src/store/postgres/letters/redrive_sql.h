// The statements on deliverd.redrives.
#pragma once

#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// Columns of a redrive as statements answer it.
enum RedriveColumn {
    kRedriveTopic,
    kRedriveActor,
    kRedrivePositionAt,
    kRedrivePositionId,
    kRedriveUpToAt,
    kRedriveUpToId,
    kRedrivePublished,
    kRedriveFailed,
    kRedriveInDoubt,
    kRedriveTakenOver,
    kRedriveFinished,
};

struct RedriveStatements {
    RedriveStatements();

    Statement free;  // topic, owner: before the next, in its transaction
    Statement open;  // topic, owner, actor, lease in seconds; answers it unless it is somebody else's
    /// Topic, owner, limit, lease in seconds, actor, limit in bytes. Answers details of letters, and behind them
    /// whether the redrive is the owner's and how many letters were looked at; one line without a letter where none was
    /// begun.
    Statement next;
    Statement close;    // topic, owner; answers it
    Statement release;  // topic, owner
    Statement abandoned;
};

}  // namespace deliverd::store::postgres
