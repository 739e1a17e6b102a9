#include "api/dlq_query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "api/router.h"
#include "base/text.h"
#include "deadletter/letter_json.h"

namespace deliverd::api {

namespace {

constexpr std::array<std::string_view, 10> kNames{"page",        "page_size", "cursor", "status", "source",
                                                  "error_class", "from",      "until",  "text",   "key"};
constexpr std::size_t kMaxShownBytes = 100;

std::string shown(std::string_view text) {
    return shorten(one_line(text), kMaxShownBytes);
}

std::optional<std::string> form_decode(std::string_view text) {
    std::string spaced(text);
    std::ranges::replace(spaced, '+', ' ');
    return percent_decode(spaced);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t number = 0;
    const auto [at, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    return fault == std::errc{} && at == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::size_t characters(std::string_view utf8) {
    return static_cast<std::size_t>(
        std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool is_source(std::string_view text) {
    if (text == "kafka") return true;
    return std::ranges::any_of(std::array<std::string_view, 2>{"lane:", "spool:"}, [text](std::string_view prefix) {
        return text.starts_with(prefix) && text.size() > prefix.size();
    });
}

/// A + that nobody escaped has become a space by now.
std::optional<WallTime> time_of(std::string text) {
    constexpr std::size_t kDateLength = 10;
    const std::size_t space = text.rfind(' ');
    if (space != std::string::npos && space > kDateLength) text[space] = '+';
    return parse_rfc3339(text);
}

class Reader {
public:
    DlqListing read(std::string_view rest) {
        listing_.query.limit = kDefaultDlqPageSize;
        while (!rest.empty()) {
            const std::string_view pair = rest.substr(0, rest.find('&'));
            rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
            if (!pair.empty()) take(pair);
        }
        if (!listing_.query.after) {
            if (!listing_.page) listing_.page = 1;
            listing_.query.offset = (*listing_.page - 1) * listing_.query.limit;
        }
        return std::move(listing_);
    }

private:
    void wrong(std::string_view name, std::string message) {
        listing_.problems.push_back({std::string(name), std::move(message)});
    }

    void take(std::string_view pair) {
        const std::size_t equals = pair.find('=');
        const auto name = form_decode(pair.substr(0, equals));
        if (!name || std::ranges::find(kNames, *name) == kNames.end()) return unknown(pair.substr(0, equals), name);
        if (std::ranges::find(seen_, *name) != seen_.end()) return wrong(*name, "stands there twice");
        seen_.push_back(*name);
        auto value = form_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
        if (!value) return wrong(*name, "has a percent escape that is not UTF-8 text");
        if (value->empty() && *name != "key") return wrong(*name, "must not be empty");
        if (characters(*value) > kMaxDlqFilterCharacters) {
            return wrong(*name, fmt::format("is longer than {} characters", kMaxDlqFilterCharacters));
        }
        set(*name, std::move(*value));
    }

    void unknown(std::string_view written, const std::optional<std::string>& name) {
        const auto meant = nearest(name ? *name : written, kNames);
        wrong(shown(valid_utf8(name ? *name : written)),
              meant ? fmt::format("is no parameter of this listing; did you mean {}?", *meant)
                    : fmt::format("is no parameter of this listing, which has {}", fmt::join(kNames, ", ")));
    }

    void set(const std::string& name, std::string value) {
        store::LetterQuery& query = listing_.query;
        if (name == "page" || name == "page_size") return set_number(name, value);
        if (name == "from" || name == "until") return set_time(name, value);
        if (name == "status") {
            query.status = store::letter_status(value);
            if (!query.status) {
                wrong(name, fmt::format("must be one of PENDING, RETRYING, RESOLVED, DEAD, not '{}'", shown(value)));
            }
        } else if (name == "cursor") {
            query.after = deadletter::parse_cursor(value);
            if (!query.after) wrong(name, "is not a next_cursor of an earlier answer");
        } else if (name == "source") {
            if (!is_source(value)) {
                wrong(name, fmt::format("must be kafka, lane:NAME or spool:NAME, not '{}'", shown(value)));
            }
            query.source = std::move(value);
        } else {
            (name == "error_class" ? query.error_class : name == "text" ? query.text : query.key) = std::move(value);
        }
    }

    void set_number(const std::string& name, std::string_view value) {
        const bool is_page = name == "page";
        const std::int64_t most = is_page ? kMaxDlqPage : kMaxDlqPageSize;
        const auto number = whole_number(value);
        if (!number || *number < 1 || *number > most) {
            return wrong(name, fmt::format("must be a whole number from 1 to {}, not '{}'", most, shown(value)));
        }
        if (is_page) {
            listing_.page = *number;
        } else {
            listing_.query.limit = static_cast<std::int32_t>(*number);
        }
    }

    void set_time(const std::string& name, const std::string& value) {
        const auto time = time_of(value);
        if (!time) {
            return wrong(name,
                         fmt::format("must be a time such as 2026-02-20T10:30:00.000+00:00, not '{}'", shown(value)));
        }
        (name == "from" ? listing_.query.from : listing_.query.until) = time;
    }

    DlqListing listing_;
    std::vector<std::string> seen_;
};

}  // namespace

DlqListing read_dlq_listing(std::string_view query) {
    return Reader().read(query);
}

}  // namespace deliverd::api
