// Repeats a store call while its error is retryable.
#pragma once

#include "deadletter/manager_options.h"
#include "deadletter/stop_gate.h"
#include "deliverd/result.h"

namespace deliverd::deadletter {

/// For calls that are safe to repeat: kStoreAttempts at most, with waits that double. Closing the gate ends the waits,
/// not the attempts: what was published still has to be recorded.
class StoreAttempts {
public:
    StoreAttempts(Duration wait, StopGate& gate) : wait_(wait), gate_(gate) {}

    template <typename Call>
    auto run(Call call) -> decltype(call()) {
        for (int attempt = 1;; ++attempt) {
            auto result = call();
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
