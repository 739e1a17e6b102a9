#include "sink/http/target.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <utility>

#include "base/text.h"
#include "sink/http/transfer.h"
#include "sink/http/webhook_signature.h"

namespace deliverd::sink {

namespace {

struct UrlDeleter {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
    std::string out(text);
    curl_free(text);
    return out;
}

using Url = std::unique_ptr<CURLU, UrlDeleter>;

Result<Url> parse_url(const std::string& text) {
    if (!text.starts_with("http://") && !text.starts_with("https://")) {
        return permanent("bad_argument", "must start with http:// or https://");
    }
    Url url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK ||
        url_part(url.get(), CURLUPART_HOST).empty()) {
        return permanent("bad_argument",
                         "cannot be used: write http://HOST/PATH or https://HOST:PORT/PATH, with special characters "
                         "percent-encoded");
    }
    return url;
}

Failure refused(std::string_view what, const Error& error) {
    return permanent(error.code, fmt::format("{} {}", what, error.message));
}

}  // namespace

/// Also a permanent refusal when the file goes missing later: a person has to put it back.
Result<void> check_ca_file(const std::string& path) {
    if (path.empty()) return {};
    std::ifstream file(path);
    if (file.good() && file.peek() != std::ifstream::traits_type::eof()) return {};
    return permanent("bad_argument", fmt::format("the sink's ca_file {} is empty or cannot be read: name a file with "
                                                 "the certificate authority in PEM",
                                                 path));
}

Result<Target> make_target(HttpSinkOptions options) {
    const auto url = parse_url(options.url);
    if (!url) return refused("the sink's url", url.error());
    for (const auto& [name, value] : options.headers) {
        if (const auto good = check_http_header(name, value); !good) return refused("the sink's", good.error());
    }
    if (const auto readable = check_ca_file(options.ca_file); !readable) return Failure(readable.error());
    if (!options.secret.empty() && !options.secret_file.empty()) {
        return permanent("bad_argument", "the sink has a secret and a secret_file: give one");
    }
    if (const auto good = check_http_secret(options.secret); !good) return refused("the sink's", good.error());
    if (options.breaker_failures < 0 || options.breaker_pause <= Duration::zero()) {
        return permanent("bad_argument", "the sink's breaker_failures must be 0 or more and its breaker_pause above 0");
    }
    if (options.max_connections == 0)
        return permanent("bad_argument", "the sink's max_connections is 0: allow at least 1");
    Target target;
    target.host = fmt::format("{}:{}", url_part(url->get(), CURLUPART_HOST),
                              url_part(url->get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
    target.is_https = url_part(url->get(), CURLUPART_SCHEME) == "https";
    target.options = std::move(options);
    return target;
}

Result<void> check_http_url(const std::string& url) {
    if (const auto parsed = parse_url(url); !parsed) return Failure(parsed.error());
    return {};
}

Result<UrlParts> split_http_url(const std::string& url) {
    const auto parsed = parse_url(url);
    if (!parsed) return Failure(parsed.error());
    return UrlParts{url_part(parsed->get(), CURLUPART_SCHEME), url_part(parsed->get(), CURLUPART_HOST)};
}

Result<void> check_http_header(std::string_view name, std::string_view value) {
    if (is_header(name, value)) return {};
    return permanent("bad_argument",
                     fmt::format("header '{}' cannot be sent: it has a line break, a control character or a name "
                                 "that may not be set",
                                 shorten(one_line(name), 64)));
}

Result<void> check_http_secret(std::string_view secret) {
    if (secret.empty()) return {};
    if (const auto parsed = WebhookSecrets::parse(secret); !parsed) return Failure(parsed.error());
    return {};
}

}  // namespace deliverd::sink
