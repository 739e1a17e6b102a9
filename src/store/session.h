// A store's own connection on which a person or program uses one of the public protocols: one call is one transaction.
// With an actor, every change leaves a line in outbox_audit, written in that transaction.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/try.h"
#include "deliverd/result.h"

namespace deliverd::store {

/// A borrowed connection inside a transaction, which the functions share. Destroying all of it rolls back what was not
/// committed.
template <typename Protocol, typename Audit>
struct Session {
    std::function<Result<void>(const Audit& entry)> audit;
    std::function<Result<void>()> commit;
    std::unique_ptr<Protocol> protocol;  // last: it uses the connection, so it ends before the transaction
};

/// A session for each call.
template <typename Protocol, typename Audit>
class Sessions {
public:
    using Open = std::function<Result<Session<Protocol, Audit>>()>;

    Sessions(Open open, std::optional<std::string> actor) : open_(std::move(open)), actor_(std::move(actor)) {}

    [[nodiscard]] bool audited() const { return actor_.has_value(); }

    /// `note` makes the audit's entry of the answer; none if nothing changed.
    template <typename Call, typename Note>
    std::invoke_result_t<Call, Protocol&> change(Call call, Note note) const {
        TRY_ASSIGN(const auto session, open_());
        TRY_ASSIGN(auto answer, call(*session.protocol));
        if (std::optional<Audit> entry = actor_ ? note(answer) : std::nullopt) {
            entry->actor = *actor_;
            TRY(session.audit(*entry));
        }
        TRY(session.commit());
        return answer;
    }

    template <typename Call>
    std::invoke_result_t<Call, Protocol&> look(Call call) const {
        TRY_ASSIGN(const auto session, open_());
        return call(*session.protocol);
    }

private:
    Open open_;
    std::optional<std::string> actor_;
};

}  // namespace deliverd::store
