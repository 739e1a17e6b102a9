// Tries a step in the store again while a failure says that this may help.
#pragma once

#include "deadletter/manager.h"
#include "deadletter/stop_gate.h"
#include "deliverd/result.h"

namespace deliverd::deadletter {

/// For steps that are safe to repeat. kStoreAttempts at most, with waits that double; a gate that closes ends the
/// waits.
class StoreAttempts {
public:
    StoreAttempts(Duration wait, StopGate& gate) : wait_(wait), gate_(gate) {}

    template <typename Step>
    auto run(Step step) -> decltype(step()) {
        for (int attempt = 1;; ++attempt) {
            auto result = step();
            if (result) return result;
            if (result.error().error_class == ErrorClass::ambiguous) ambiguous_ = true;
            if (result.error().error_class == ErrorClass::permanent || attempt == kStoreAttempts) return result;
            gate_.wait(wait_);
            wait_ *= 2;
        }
    }

    /// An attempt may have taken effect without an answer.
    [[nodiscard]] bool was_ambiguous() const { return ambiguous_; }

private:
    Duration wait_;
    StopGate& gate_;
    bool ambiguous_ = false;
};

}  // namespace deliverd::deadletter
