#include "api/dlq_query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <utility>

#include "api/router.h"
#include "base/text.h"
#include "deadletter/letter_json.h"

namespace deliverd::api {

namespace {

constexpr std::int32_t kDefaultPageSize = 20;
constexpr std::int64_t kMaxPage = 1'000'000'000;
constexpr std::int64_t kMaxPurgeSeconds = 315'360'000;  // ten years
constexpr std::size_t kMaxFilterCharacters = 512;       // as long as an error class may be
constexpr std::size_t kMaxShownValueBytes = 100;
constexpr std::size_t kMaxParameters = 32;  // per request; what follows is not read

struct Parameter {
    std::string_view name;
    std::function<std::string(const std::string& value)> read;  // answers what is wrong with the value; empty: nothing
    enum { optional, required, optional_and_may_be_empty } rule = optional;
    bool seen = false;
};

std::string shown_value(std::string_view text) {
    return shorten(one_line(text), kMaxShownValueBytes);
}

std::optional<std::string> form_decode(std::string_view text) {
    // As HTML forms and most HTTP libraries write a query: a + is a space.
    std::string spaced(text);
    std::ranges::replace(spaced, '+', ' ');
    return percent_decode(spaced);
}

/// What is wrong with a parameter's value, which may be wrong already as text; otherwise gives it to the parameter.
std::string problem_of(Parameter& parameter, std::string_view written) {
    // Two readers, such as a proxy and this program, might disagree about which of the two counts.
    if (std::exchange(parameter.seen, true)) return "was given twice";
    const auto value = form_decode(written);
    if (!value) return "has a percent escape that is not UTF-8 text";
    if (value->empty() && parameter.rule != Parameter::optional_and_may_be_empty) return "must not be empty";
    if (count_characters(*value) > kMaxFilterCharacters) {
        return fmt::format("is longer than {} characters", kMaxFilterCharacters);
    }
    return parameter.read(*value);
}

/// Reads the query of `what`, which has these parameters and no others; answers everything that is wrong with it.
std::vector<Detail> read_query(std::string_view rest, std::string_view what, std::vector<Parameter> parameters) {
    std::vector<std::string_view> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    std::vector<Detail> problems;
    for (std::size_t count = 0; !rest.empty(); ++count) {
        // Each one costs a comparison with every known name.
        if (count == kMaxParameters) {
            problems.push_back({"", fmt::format("more than {} parameters", kMaxParameters)});
            break;
        }
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
        if (pair.empty()) continue;
        const std::string_view written = pair.substr(0, pair.find('='));
        const std::string name = form_decode(written).value_or(std::string(written));
        const auto known = std::ranges::find(parameters, name, &Parameter::name);
        if (known != parameters.end()) {
            std::string problem = problem_of(*known, pair.substr(std::min(written.size() + 1, pair.size())));
            if (!problem.empty()) problems.push_back({name, std::move(problem)});
            continue;
        }
        // An unknown parameter is an error: a filter with a typing mistake would otherwise list everything.
        const auto meant = nearest(name, names);
        problems.push_back({shown_value(valid_utf8(name)),
                            meant
                                ? fmt::format("is not a parameter of {}; did you mean {}?", what, *meant)
                                : fmt::format("is not a parameter of {}, which has {}", what, fmt::join(names, ", "))});
    }
    for (const Parameter& parameter : parameters) {
        if (parameter.rule != Parameter::required || parameter.seen) continue;
        problems.push_back({std::string(parameter.name), "must be given"});
    }
    return problems;
}

// What a parameter's `read` may be: each sets `out`, and only to a value without a problem.

template <typename Number>
auto number_into(Number& out, std::int64_t least, std::int64_t most) {
    return [&out, least, most](const std::string& value) -> std::string {
        std::int64_t number = 0;
        const char* const end = value.data() + value.size();
        // std::stoll would accept leading spaces and a plus sign, and throw.
        const auto [at, fault] = std::from_chars(value.data(), end, number);
        if (fault != std::errc{} || at != end || number < least || number > most) {
            return fmt::format("must be a whole number from {} to {}, not '{}'", least, most, shown_value(value));
        }
        out = static_cast<Number>(number);
        return {};
    };
}

template <typename Status>
auto status_into(Status& out) {
    return [&out](const std::string& value) -> std::string {
        const auto status = store::letter_status(value);
        if (!status) {
            return fmt::format("must be one of PENDING, RETRYING, RESOLVED, DEAD, not '{}'", shown_value(value));
        }
        out = *status;
        return {};
    };
}

auto time_into(std::optional<WallTime>& out) {
    return [&out](std::string value) -> std::string {
        // An unescaped + before the offset has become a space by now.
        constexpr std::size_t kDateLength = 10;
        const std::string shown = shown_value(value);
        const std::size_t space = value.rfind(' ');
        if (space != std::string::npos && space > kDateLength) value[space] = '+';
        out = parse_rfc3339(value);
        return out ? "" : fmt::format("must be a time such as 2026-02-20T10:30:00.000+00:00, not '{}'", shown);
    };
}

auto text_into(std::optional<std::string>& out) {
    return [&out](const std::string& value) -> std::string {
        out = value;
        return {};
    };
}

}  // namespace

DlqPurge read_dlq_purge(std::string_view query) {
    DlqPurge purge;
    purge.problems =
        read_query(query, "a purge",
                   {{"status", status_into(purge.status), Parameter::required},
                    {"older_than_seconds", number_into(purge.age, 0, kMaxPurgeSeconds), Parameter::required},
                    {"limit", number_into(purge.limit, 1, kMaxDlqPurge)}});
    return purge;
}

DlqRetryAll read_dlq_retry_all(std::string_view query) {
    DlqRetryAll asked;
    const auto read = [&](const std::string& value) -> std::string {
        asked.dry_run = value == "true";
        if (asked.dry_run || value == "false") return {};
        return fmt::format("must be true or false, not '{}'", shown_value(value));
    };
    asked.problems = read_query(query, "retry-all", {{"dry_run", read}});
    return asked;
}

DlqListing read_dlq_listing(std::string_view query) {
    DlqListing listing;
    store::LetterQuery& asked = listing.query;
    asked.limit = kDefaultPageSize;
    const auto read_cursor = [&](const std::string& value) -> std::string {
        asked.after = deadletter::parse_cursor(value);
        return asked.after ? "" : "is not a next_cursor of an earlier answer";
    };
    const auto read_source = [&](const std::string& value) -> std::string {
        asked.source = value;
        if (store::is_letter_source(value)) return {};
        return fmt::format("must be kafka, lane:NAME or spool:NAME, not '{}'", shown_value(value));
    };
    listing.problems = read_query(query, "this listing",
                                  {{"page", number_into(listing.page, 1, kMaxPage)},
                                   {"page_size", number_into(asked.limit, 1, kMaxDlqPageSize)},
                                   {"cursor", read_cursor},
                                   {"status", status_into(asked.status)},
                                   {"source", read_source},
                                   {"error_class", text_into(asked.error_class)},
                                   {"from", time_into(asked.from)},
                                   {"until", time_into(asked.until)},
                                   {"text", text_into(asked.text)},
                                   {"key", text_into(asked.key), Parameter::optional_and_may_be_empty}});
    if (!asked.after) {
        if (!listing.page) listing.page = 1;
        asked.offset = (*listing.page - 1) * asked.limit;
    }
    return listing;
}

}  // namespace deliverd::api
