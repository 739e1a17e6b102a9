// How deep a queue is, as the observer is told.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "pipeline/observer.h"

namespace deliverd::pipeline {

/// Tells the observer how deep a queue is whenever that has changed. Only one who takes from it does: two who told
/// could overtake each other, and an empty queue would be shown with something in it.
class QueueDepth {
public:
    explicit QueueDepth(std::string_view queue) : queue_(queue) {}
    void tell(Observer& observer, std::size_t items) {
        if (told_ == items) return;
        told_ = items;
        observer.on_queue_depth(queue_, items);
    }

private:
    const std::string_view queue_;  // a literal
    std::optional<std::size_t> told_;
};

}  // namespace deliverd::pipeline
