// The options of a lane that claims rows.
#pragma once

#include "pipeline/options.h"

namespace deliverd::lane {

struct LaneOptions : pipeline::EngineOptions {
    Duration rescue_interval{};  // how often RowQueue::rescue(lease) is called; 0: never
};

}  // namespace deliverd::lane
