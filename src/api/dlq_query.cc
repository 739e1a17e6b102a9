#include "api/dlq_query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "api/router.h"
#include "base/text.h"
#include "deadletter/letter_json.h"

namespace deliverd::api {

namespace {

constexpr std::array<std::string_view, 10> kNames{"page",        "page_size", "cursor", "status", "source",
                                                  "error_class", "from",      "until",  "text",   "key"};
constexpr std::array<std::string_view, 3> kPurgeNames{"status", "older_than_seconds", "limit"};
constexpr std::array<std::string_view, 1> kRetryAllNames{"dry_run"};
constexpr std::size_t kMaxShownValueBytes = 100;
constexpr std::size_t kMaxParameters = 32;  // per request; what follows is not read

std::string shown_value(std::string_view text) {
    return shorten(one_line(text), kMaxShownValueBytes);
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

/// An unescaped + has become a space by now.
std::optional<WallTime> time_of(std::string text) {
    constexpr std::size_t kDateLength = 10;
    const std::size_t space = text.rfind(' ');
    if (space != std::string::npos && space > kDateLength) text[space] = '+';
    return parse_rfc3339(text);
}

/// The parameters one by one: each known, once and readable.
class Parameters {
public:
    /// `what` has these and no others. `problems` outlives it.
    Parameters(std::string_view what, std::span<const std::string_view> names, std::vector<Detail>& problems)
        : what_(what), names_(names), problems_(problems) {}

    template <typename Set>
    void read(std::string_view rest, const Set& set) {
        for (std::size_t count = 0; !rest.empty(); ++count) {
            if (count == kMaxParameters) return wrong("", fmt::format("more than {} parameters", kMaxParameters));
            const std::string_view pair = rest.substr(0, rest.find('&'));
            rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
            if (pair.empty()) continue;
            const std::string_view written = pair.substr(0, pair.find('='));
            const auto name = form_decode(written);
            if (auto value = value_of(pair, written, name)) set(*name, std::move(*value));
        }
    }
    void wrong(std::string_view name, std::string message) {
        problems_.push_back({std::string(name), std::move(message)});
    }
    [[nodiscard]] bool has(std::string_view name) const { return std::ranges::find(seen_, name) != seen_.end(); }

    /// From `least` to `most`; else 0, and a problem.
    std::int64_t number(const std::string& name, std::string_view value, std::int64_t least, std::int64_t most) {
        const auto number = whole_number(value);
        if (number && *number >= least && *number <= most) return *number;
        wrong(name, fmt::format("must be a whole number from {} to {}, not '{}'", least, most, shown_value(value)));
        return 0;
    }
    std::optional<store::LetterStatus> status(const std::string& name, std::string_view value) {
        const auto status = store::letter_status(value);
        if (!status) {
            wrong(name, fmt::format("must be one of PENDING, RETRYING, RESOLVED, DEAD, not '{}'", shown_value(value)));
        }
        return status;
    }

private:
    std::optional<std::string> value_of(std::string_view pair, std::string_view written,
                                        const std::optional<std::string>& name) {
        std::string problem;
        std::optional<std::string> value;
        if (!name || std::ranges::find(names_, *name) == names_.end()) {
            unknown(written, name);
            return std::nullopt;
        }
        if (has(*name)) {
            problem = "was given twice";
        } else {
            seen_.push_back(*name);
            value = form_decode(written.size() == pair.size() ? "" : pair.substr(written.size() + 1));
            if (!value) {
                problem = "has a percent escape that is not UTF-8 text";
            } else if (value->empty() && *name != "key") {
                problem = "must not be empty";
            } else if (characters(*value) > kMaxDlqFilterCharacters) {
                problem = fmt::format("is longer than {} characters", kMaxDlqFilterCharacters);
            }
        }
        if (problem.empty()) return value;
        wrong(*name, std::move(problem));
        return std::nullopt;
    }

    void unknown(std::string_view written, const std::optional<std::string>& name) {
        const auto meant = nearest(name ? *name : written, names_);
        wrong(shown_value(valid_utf8(name ? *name : written)),
              meant ? fmt::format("is no parameter of {}; did you mean {}?", what_, *meant)
                    : fmt::format("is no parameter of {}, which has {}", what_, fmt::join(names_, ", ")));
    }

    const std::string_view what_;
    const std::span<const std::string_view> names_;
    std::vector<Detail>& problems_;
    std::vector<std::string> seen_;
};

class Reader {
public:
    DlqListing read(std::string_view query) {
        listing_.query.limit = kDefaultDlqPageSize;
        parameters_.read(query, [this](const std::string& name, std::string value) { set(name, std::move(value)); });
        if (!listing_.query.after) {
            if (!listing_.page) listing_.page = 1;
            listing_.query.offset = (*listing_.page - 1) * listing_.query.limit;
        }
        return std::move(listing_);
    }

private:
    void wrong(std::string_view name, std::string message) { parameters_.wrong(name, std::move(message)); }

    void set(const std::string& name, std::string value) {
        store::LetterQuery& query = listing_.query;
        if (name == "page" || name == "page_size") return set_number(name, value);
        if (name == "from" || name == "until") return set_time(name, value);
        if (name == "status") {
            query.status = parameters_.status(name, value);
        } else if (name == "cursor") {
            query.after = deadletter::parse_cursor(value);
            if (!query.after) wrong(name, "is not a next_cursor of an earlier answer");
        } else if (name == "source") {
            if (!store::is_letter_source(value)) {
                wrong(name, fmt::format("must be kafka, lane:NAME or spool:NAME, not '{}'", shown_value(value)));
            }
            query.source = std::move(value);
        } else {
            (name == "error_class" ? query.error_class : name == "text" ? query.text : query.key) = std::move(value);
        }
    }

    void set_number(const std::string& name, std::string_view value) {
        const bool is_page = name == "page";
        const std::int64_t number = parameters_.number(name, value, 1, is_page ? kMaxDlqPage : kMaxDlqPageSize);
        if (number == 0) return;
        if (is_page) {
            listing_.page = number;
        } else {
            listing_.query.limit = static_cast<std::int32_t>(number);
        }
    }

    void set_time(const std::string& name, const std::string& value) {
        const auto time = time_of(value);
        if (!time) {
            return wrong(name, fmt::format("must be a time such as 2026-02-20T10:30:00.000+00:00, not '{}'",
                                           shown_value(value)));
        }
        (name == "from" ? listing_.query.from : listing_.query.until) = time;
    }

    DlqListing listing_;
    Parameters parameters_{"this listing", kNames, listing_.problems};
};

}  // namespace

DlqPurge read_dlq_purge(std::string_view query) {
    DlqPurge purge;
    Parameters parameters("a purge", kPurgeNames, purge.problems);
    parameters.read(query, [&](const std::string& name, const std::string& value) {
        if (name == "status") {
            purge.status = parameters.status(name, value).value_or(store::LetterStatus::pending);
        } else if (name == "limit") {
            purge.limit = static_cast<std::int32_t>(parameters.number(name, value, 1, kMaxDlqPurge));
        } else {
            purge.age = std::chrono::seconds(parameters.number(name, value, 0, kMaxDlqPurgeSeconds));
        }
    });
    for (const std::string_view name : {kPurgeNames[0], kPurgeNames[1]}) {
        if (!parameters.has(name)) parameters.wrong(name, "must be given");
    }
    return purge;
}

DlqRetryAll read_dlq_retry_all(std::string_view query) {
    DlqRetryAll asked;
    Parameters parameters("retry-all", kRetryAllNames, asked.problems);
    parameters.read(query, [&](const std::string& name, const std::string& value) {
        asked.dry_run = value == "true";
        if (!asked.dry_run && value != "false") {
            parameters.wrong(name, fmt::format("must be true or false, not '{}'", shown_value(value)));
        }
    });
    return asked;
}

DlqListing read_dlq_listing(std::string_view query) {
    return Reader().read(query);
}

}  // namespace deliverd::api
