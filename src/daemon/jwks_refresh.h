// Keeps the keys of an OpenID provider (`auth.jwt`) up to date.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/jwt.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "config/values.h"
#include "daemon/parts.h"
#include "daemon/periodic.h"
#include "deliverd/result.h"
#include "sink/http/http_get.h"

namespace deliverd::daemon {

/// The text of the key set as it is now. Blocks as http_get() does. Failure: says why, naming the source.
[[nodiscard]] inline Result<std::string> load_jwks(const config::JwksSource& source, const std::atomic<bool>& stopped) {
    if (!source.file.empty()) return config::read_secret_file(source.file);
    sink::HttpGetOptions options;
    options.url = source.url;
    options.ca_file = source.ca_file;
    options.max_bytes = api::kMaxJwksBytes;
    return about(source.name(), sink::http_get(options, stopped));  // name() hides a user and a password in the URL
}

/// Brings the keys up to date, one look at a time.
class JwksReader {
public:
    using Load = std::function<Result<std::string>(const std::atomic<bool>& stopped)>;

    /// `name` of the source is for the log. `log` outlives it.
    JwksReader(Load load, std::string name, std::shared_ptr<api::JwtKeys> keys, Log& log)
        : load_(std::move(load)), name_(std::move(name)), keys_(std::move(keys)), log_(log) {}

    /// Replaces the keys by those of the source, so that keys it removed are gone too; answers whether that succeeded.
    /// After a failure the keys stay as they are; each cause is logged once. Blocks as `load` does. One thread at once.
    bool look() {
        auto text = load_(stopped_);
        if (stopped_) return false;  // the load failed because of the stop, which is no problem to report
        // After a problem, the same text is read again, so that the log says that all is well.
        if (text && *text == text_ && problem_.empty()) return true;
        auto keys = text.and_then([](const std::string& found) { return api::parse_jwks(found); });
        if (!keys) {
            if (keys.error().message != problem_) {
                log_.error(
                    "cannot read the keys of the OpenID provider; the known ones stay in use",
                    {{"source", name_}, {"known", keys_->get()->keys.size()}, {"problem", keys.error().message}});
            }
            problem_ = keys.error().message;
            return false;
        }
        problem_.clear();
        text_ = std::move(*text);
        // A set without a usable key refuses every token from now on: nothing works, although nothing failed here.
        log_.write(keys->keys.empty() ? LogLevel::error : LogLevel::info, "the keys of the OpenID provider were read",
                   {{"source", name_},
                    {"usable", keys->keys.size()},
                    {"left_out", fmt::format("{}", fmt::join(keys->left_out, "; "))}});
        keys_->set(std::move(*keys));
        return true;
    }

    /// Ends a look under way as soon as `load` can. Thread-safe.
    void stop() { stopped_ = true; }

private:
    const Load load_;
    const std::string name_;
    const std::shared_ptr<api::JwtKeys> keys_;
    Log& log_;
    std::string text_;     // what the keys were read from
    std::string problem_;  // the last that was logged; empty: all is well
    std::atomic<bool> stopped_ = false;
};

struct JwksTimes {
    Duration interval;  // between two looks
    Duration retry;     // after a failed look
    Duration least;     // between two looks, even if hurry() is called
};
inline constexpr JwksTimes kJwksTimes{std::chrono::minutes(5), std::chrono::seconds(30), std::chrono::seconds(10)};

/// Looks at once and then at intervals, on a thread of its own: for a `jwks_url`.
class JwksRefresh {
public:
    JwksRefresh(std::shared_ptr<JwksReader> reader, JwksTimes times)
        : reader_(std::move(reader)),
          looks_([reader = reader_, times] { return reader->look() ? times.interval : times.retry; }, times.least) {}
    /// Stops the reader and waits for a running look: about a second.
    ~JwksRefresh() { reader_->stop(); }

    /// For a token by an unknown key: looks again soon. Does not wait for the look. Thread-safe.
    void hurry() { looks_.hurry(); }

private:
    const std::shared_ptr<JwksReader> reader_;
    Periodic looks_;
};

}  // namespace deliverd::daemon
