#include "sink/http/target.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/hmac.h"
#include "base/try.h"
#include "sink/handle.h"
#include "sink/http/request_headers.h"
#include "sink/http/webhook_signature.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

namespace {

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
    std::string out(text);
    curl_free(text);
    return out;
}

using Url = Handle<CURLU, curl_url_cleanup>;

Result<Url> parse_url(const std::string& text) {
    if (!text.starts_with("http://") && !text.starts_with("https://")) {
        return bad_argument("must start with http:// or https://");
    }
    Url url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK ||
        url_part(url.get(), CURLUPART_HOST).empty()) {
        return bad_argument(
            "cannot be used: write http://HOST/PATH or https://HOST:PORT/PATH, with special characters "
            "percent-encoded");
    }
    return url;
}

Failure refused(std::string_view what, const Error& error) {
    return permanent(error.code, fmt::format("{} {}", what, error.message));
}

/// What the options send as proof of identity: the values of `Authorization`, and the URL's password.
std::vector<std::string> secrets_of(const HttpSinkOptions& options, CURLU* url) {
    std::vector<std::string> out;
    for (const auto& [name, value] : options.headers) {
        // `token:` of the configuration is here; the secret follows "Bearer".
        if (name == "Authorization") out.push_back(value.substr(value.rfind(' ') + 1));
    }
    if (const auto password = url_part(url, CURLUPART_PASSWORD, CURLU_URLDECODE); !password.empty()) {
        out.push_back(base64_encoded(url_part(url, CURLUPART_USER, CURLU_URLDECODE) + ":" + password));
        out.push_back(password);
    }
    return out;
}

}  // namespace

Result<Target> make_target(HttpSinkOptions options) {
    const auto url = parse_url(options.url);
    if (!url) return refused("the sink's url", url.error());
    for (const auto& [name, value] : options.headers) {
        if (const auto good = check_http_header(name, value); !good) return refused("the sink's", good.error());
    }
    TRY(check_ca_file(options.ca_file));
    if (!options.secret.empty() && !options.secret_file.empty()) {
        return bad_argument("the sink has a secret and a secret_file: give one");
    }
    if (const auto good = check_http_secret(options.secret); !good) return refused("the sink's", good.error());
    if (options.breaker_failures < 0 || options.breaker_pause <= Duration::zero()) {
        return bad_argument("the sink's breaker_failures must be 0 or more and its breaker_pause above 0");
    }
    if (options.max_connections == 0) return bad_argument("the sink's max_connections is 0: allow at least 1");
    Target target;
    target.host = fmt::format("{}:{}", url_part(url->get(), CURLUPART_HOST),
                              url_part(url->get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
    target.is_https = url_part(url->get(), CURLUPART_SCHEME) == "https";
    target.secrets = secrets_of(options, url->get());
    target.options = std::move(options);
    return target;
}

Result<void> check_http_url(const std::string& url) {
    TRY(parse_url(url));
    return {};
}

Result<UrlParts> split_http_url(const std::string& url) {
    TRY_ASSIGN(const auto parsed, parse_url(url));
    return UrlParts{url_part(parsed.get(), CURLUPART_SCHEME), url_part(parsed.get(), CURLUPART_HOST)};
}

Result<void> check_http_header(std::string_view name, std::string_view value) {
    if (is_header(name, value)) return {};
    return unsendable_header("bad_argument", name);
}

Result<void> check_http_secret(std::string_view secret) {
    if (secret.empty()) return {};
    TRY(WebhookSecrets::parse(secret));
    return {};
}

}  // namespace deliverd::sink
