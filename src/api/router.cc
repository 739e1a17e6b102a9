#include "api/router.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace deliverd::api {

namespace {

/// The first segment, before the slash at the beginning, is empty. So no path matches that begins otherwise.
std::vector<std::string_view> split(std::string_view path) {
    std::vector<std::string_view> segments;
    while (true) {
        const auto slash = path.find('/');
        segments.push_back(path.substr(0, slash));
        if (slash == std::string_view::npos) return segments;
        path.remove_prefix(slash + 1);
    }
}

/// Of a route: no literal has a brace.
bool is_parameter(std::string_view segment) {
    return segment.starts_with('{');
}

/// Literals are compared as they were sent, because whatever guards a path in front of us compares bytes too.
bool matches(const std::vector<std::string>& pattern, const std::vector<std::string_view>& segments) {
    return std::equal(
        pattern.begin(), pattern.end(), segments.begin(), segments.end(),
        [](const std::string& want, std::string_view got) { return is_parameter(want) ? !got.empty() : want == got; });
}

void add_once(std::vector<std::string>& list, std::string_view value) {
    if (std::ranges::find(list, value) == list.end()) list.emplace_back(value);
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
    auto out = percent_decoded(text);
    // A NUL or broken UTF-8 is refused by PostgreSQL, which would make it our error, not the caller's.
    if (!out || out->find('\0') != std::string::npos || find_invalid_utf8(*out)) return std::nullopt;
    return out;
}

Router::Router(std::vector<Route> routes) {
    // Of two routes that match one path, the first in this order wins.
    const auto before = [](const Entry& a, const Entry& b) {
        return std::lexicographical_compare(
            a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
            [](const std::string& x, const std::string& y) { return !is_parameter(x) && is_parameter(y); });
    };
    for (auto& route : routes) {
        Entry entry{std::move(route), {}};
        for (const auto segment : split(entry.route.path)) entry.segments.emplace_back(segment);
        const auto place = std::ranges::upper_bound(entries_, entry, before);
        entries_.insert(place, std::move(entry));
    }
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
    Match match;
    const auto segments = split(path);
    // The server leaves out the body.
    const std::string_view wanted = method == "HEAD" ? "GET" : method;
    for (const auto& entry : entries_) {
        if (!matches(entry.segments, segments)) continue;
        add_once(match.allowed, entry.route.method);
        if (entry.route.method == "GET") add_once(match.allowed, "HEAD");
        if (match.route != nullptr || entry.route.method != wanted) continue;
        match.route = &entry.route;
        for (std::size_t i = 0; i < segments.size(); ++i) {
            if (!is_parameter(entry.segments[i])) continue;
            auto value = percent_decode(segments[i]);
            match.bad_escape = match.bad_escape || !value;
            match.path_values.push_back(std::move(value).value_or(""));
        }
    }
    return match;
}

}  // namespace deliverd::api
