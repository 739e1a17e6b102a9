#include "sink/breaker.h"

#include <algorithm>

#include "base/assert.h"

namespace deliverd::sink {

std::optional<Breaker::Permit> Breaker::begin(Instant now) {
    if (!open_until_) return Permit::normal;
    // One at a time: more would add load to a receiver that may just be recovering.
    if (probing_ || now < *open_until_) return std::nullopt;
    probing_ = true;
    return Permit::probe;
}

Duration Breaker::wait(Instant now) const {
    if (!open_until_) return Duration::zero();
    if (now < *open_until_) return *open_until_ - now;
    return probing_ ? std::min(options_.pause, kProbeWait) : Duration::zero();
}

Breaker::Change Breaker::ended(Permit permit, bool good, Instant now) {
    if (permit == Permit::probe) {
        ASSERT(probing_);
        probing_ = false;
        if (!good) {
            // The pause of the configuration may be longer than the longest.
            pause_ = std::min(2 * pause_, std::max(options_.longest_pause, options_.pause));
            open_until_ = now + pause_;
            return Change::none;
        }
        open_until_.reset();
        failures_ = 0;
        pause_ = options_.pause;
        return Change::closed;
    }
    // While it is open, attempts end that began before: they are part of the failures that opened it.
    if (open_until_ || options_.failures <= 0) return Change::none;
    failures_ = good ? 0 : failures_ + 1;
    if (failures_ < options_.failures) return Change::none;
    open_until_ = now + pause_;
    return Change::opened;
}

void Breaker::cancelled(Permit permit) {
    if (permit == Permit::probe) probing_ = false;
}

}  // namespace deliverd::sink
