#include "api/refusals.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutex.h"
#include "base/text.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxLoggedPathBytes = 256;

}  // namespace

Duration Refusals::note(const http::Request& request, std::string_view reason, std::string_view detail) {
    if (metrics_ != nullptr) {
        metrics_->counter("api_refused_total", "Requests turned away, by reason.", {{"reason", std::string(reason)}})
            .add(1);
    }
    const Instant now = clock_.now();
    std::int64_t left_out = 0;
    bool logs = false;
    Duration delay{};
    {
        const MutexLock lock(mutex_);
        logs = may_log(now, left_out);
        delay = delay_of(request.remote_address, now);
    }
    // Without the mutex: the log may block, for example on a pipe that nobody reads.
    if (logs) {
        log_.warn("request refused",
                  {{"address", request.remote_address},
                   {"method", request.method},
                   {"path", shorten(one_line(request.path), kMaxLoggedPathBytes)},
                   {"reason", detail.empty() ? std::string(reason) : fmt::format("{}: {}", reason, detail)},
                   {"not_logged_before", left_out}});
    }
    return delay;
}

std::size_t Refusals::addresses() {
    const MutexLock lock(mutex_);
    return used_until_.size();
}

bool Refusals::may_log(Instant now, std::int64_t& left_out) {
    if (now - second_ >= std::chrono::seconds(1)) {
        second_ = now;
        lines_ = 0;
    }
    // Whoever can be refused must not be able to fill the disk with our log.
    if (lines_ >= kMaxRefusalLinesPerSecond) {
        ++left_out_;
        return false;
    }
    ++lines_;
    left_out = left_out_;
    left_out_ = 0;
    return true;
}

Duration Refusals::delay_of(const std::string& address, Instant now) {
    // A token bucket kept as one instant: until when the address has used up its allowance.
    constexpr Duration kAllowance = kFreeRefusals * kRefusalInterval;
    if (!used_until_.contains(address)) make_room(now);
    Instant& until = used_until_[address];
    // Never further ahead than the longest delay: an address that stops is served at once again soon, however many
    // requests it sent.
    until = std::min(std::max(until, now) + kRefusalInterval, now + kAllowance + kMaxRefusalDelay);
    return std::max(until - now - kAllowance, Duration::zero());
}

void Refusals::make_room(Instant now) {
    if (used_until_.size() < kMaxRefusedAddresses) return;
    std::erase_if(used_until_, [now](const auto& entry) { return entry.second <= now; });
    if (used_until_.size() < kMaxRefusedAddresses) return;
    // Everybody in it is being slowed down. The one whose delay ends first loses least.
    used_until_.erase(std::ranges::min_element(used_until_, {}, [](const auto& entry) { return entry.second; }));
}

}  // namespace deliverd::api
