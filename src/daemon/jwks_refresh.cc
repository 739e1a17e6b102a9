#include "daemon/jwks_refresh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/values.h"
#include "daemon/parts.h"
#include "sink/http/http_get.h"

namespace deliverd::daemon {

Result<std::string> load_jwks(const config::JwksSource& source, const std::atomic<bool>& stopped) {
    if (!source.file.empty()) return config::read_secret_file(source.file);
    sink::HttpGetOptions options;
    options.url = source.url;
    options.ca_file = source.ca_file;
    options.max_bytes = api::kMaxJwksBytes;
    auto text = sink::http_get(options, stopped);
    if (!text) return failure_of(source.name(), text.error());  // name() hides a user and a password in the URL
    return text;
}

bool JwksReader::look() {
    auto text = load_(stopped_);
    if (stopped_) return false;  // the load failed because of the stop, which is no problem to report
    // After a problem, the same text is read again, so that the log says that all is well.
    if (text && *text == text_ && problem_.empty()) return true;
    auto keys = text.and_then([](const std::string& found) { return api::parse_jwks(found); });
    if (!keys) {
        if (keys.error().message != problem_) {
            log_.error("cannot read the keys of the OpenID provider; the known ones stay in use",
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

}  // namespace deliverd::daemon
