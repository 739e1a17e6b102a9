// Keeps the keys of an OpenID provider (`auth.jwt`) up to date.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "api/jwt.h"
#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"

namespace deliverd::app {

/// Where the keys are: one of the two.
struct JwksSource {
    std::string file;
    std::string url;
    std::string ca_file;  // for `url`; empty: the system's authorities

    [[nodiscard]] const std::string& name() const { return file.empty() ? url : file; }
};

/// The key set as it is there now, unread. Blocks as http_get() does. Failure: says why, naming the source.
[[nodiscard]] Result<std::string> load_jwks(const JwksSource& source, const std::atomic<bool>& stopped);

/// Brings the keys up to date, one look at a time.
class JwksReader {
public:
    using Load = std::function<Result<std::string>(const std::atomic<bool>& stopped)>;

    /// `name` of the source is for the log. `log` outlives it.
    JwksReader(Load load, std::string name, std::shared_ptr<api::JwtKeys> keys, Log& log)
        : load_(std::move(load)), name_(std::move(name)), keys_(std::move(keys)), log_(log) {}

    /// Whether the keys are now those of the source: also those that it has removed are gone. While they cannot be had
    /// or read they stay as they are, which is logged once for each cause. Blocks as `load` does; one thread at a time.
    bool look();

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
    Duration retry;     // after one that failed
    Duration least;     // before an earlier look that hurry() asks for
};
inline constexpr JwksTimes kJwksTimes{std::chrono::minutes(5), std::chrono::seconds(30), std::chrono::seconds(10)};

/// Looks at once and then from time to time, on a thread of its own: for a `jwks_url`.
class JwksRefresh {
public:
    JwksRefresh(std::shared_ptr<JwksReader> reader, JwksTimes times);
    /// Stops the reader, and waits for a look under way: about a second.
    ~JwksRefresh();
    JwksRefresh(const JwksRefresh&) = delete;
    JwksRefresh& operator=(const JwksRefresh&) = delete;

    /// A token names a key that is not there: looks again soon. Never waits for a look. Thread-safe.
    void hurry();

private:
    void run();

    const std::shared_ptr<JwksReader> reader_;
    const JwksTimes times_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool hurried_ = false;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace deliverd::app
