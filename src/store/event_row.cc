#include "store/event_row.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"

namespace deliverd::store {
namespace {

/// Walks over JSON text without making a tree of it: values that travel as text must stay as they were written.
class Scanner {
public:
    explicit Scanner(std::string_view text) : text_(text) {}

    bool take(char wanted) {
        skip_space();
        if (at_ >= text_.size() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }
    [[nodiscard]] bool at_string() {
        skip_space();
        return at_ < text_.size() && text_[at_] == '"';
    }
    /// What the string at this place says.
    std::optional<std::string> string() {
        if (!at_string()) return std::nullopt;
        const std::size_t begin = at_;
        if (!skip_string()) return std::nullopt;
        const std::string_view inside = text_.substr(begin + 1, at_ - begin - 2);
        if (inside.find('\\') == std::string_view::npos) return std::string(inside);
        boost::system::error_code fault;
        const boost::json::value value = boost::json::parse(text_.substr(begin, at_ - begin), fault);
        if (fault || !value.is_string()) return std::nullopt;
        return std::string(value.as_string());
    }
    /// The value at this place, as its text.
    std::optional<std::string> raw() {
        skip_space();
        const std::size_t begin = at_;
        int depth = 0;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"') {
                if (!skip_string()) return std::nullopt;
                continue;
            }
            if (depth == 0 && (c == ',' || c == '}')) break;
            if (c == '{' || c == '[') ++depth;
            if (c == '}' || c == ']') --depth;
            if (depth < 0) return std::nullopt;
            ++at_;
        }
        std::string_view value = text_.substr(begin, at_ - begin);
        while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
        if (value.empty() || depth != 0) return std::nullopt;
        return std::string(value);
    }

private:
    static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
    void skip_space() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }
    bool skip_string() {
        for (++at_; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\\') {
                ++at_;
            } else if (text_[at_] == '"') {
                ++at_;
                return true;
            }
        }
        at_ = std::min(at_, text_.size());
        return false;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

Result<void> check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return permanent("bad_argument", std::string(what) + " must not be empty");
    if (find_invalid_utf8(name) || name.find('\0') != std::string_view::npos) {
        return permanent("bad_argument", std::string(what) + " must be UTF-8 without NUL");
    }
    return {};
}

Result<void> check_columns(const EventColumns& columns) {
    const std::pair<std::string_view, const std::string*> needed[] = {{"columns.id", &columns.id},
                                                                      {"columns.aggregate_id", &columns.aggregate_id},
                                                                      {"columns.event_type", &columns.event_type},
                                                                      {"columns.payload", &columns.payload}};
    for (const auto& [what, name] : needed) {
        if (auto ok = check_name(what, *name); !ok) return ok;
    }
    const std::string* state[] = {&columns.retry_count, &columns.next_attempt_at, &columns.last_error,
                                  &columns.dead_at};
    const auto present = std::ranges::count_if(state, [](const std::string* name) { return !name->empty(); });
    if (present != 0 && present != std::ssize(state)) {
        return permanent("bad_argument",
                         "columns: give all of retry_count, next_attempt_at, last_error and dead_at, or none");
    }
    if (columns.published.empty() && !columns.published_at.empty()) {
        return permanent("bad_argument", "columns.published_at needs columns.published");
    }
    std::set<std::string_view> seen;
    for (const std::string* name :
         {&columns.id, &columns.aggregate_id, &columns.aggregate_type, &columns.event_type, &columns.payload,
          &columns.event_id, &columns.metadata, &columns.created_at, &columns.published, &columns.published_at,
          &columns.retry_count, &columns.next_attempt_at, &columns.last_error, &columns.dead_at}) {
        if (name->empty()) continue;
        if (auto ok = check_name("columns", *name); !ok) return ok;
        // The id may well be the event's as well.
        if (!seen.insert(*name).second && name != &columns.event_id) {
            return permanent("bad_argument", "columns: " + one_line(*name) + " is named twice");
        }
    }
    return {};
}

}  // namespace

Result<void> check_event_table(const EventTable& table) {
    if (auto ok = check_name("lane", table.lane); !ok) return ok;
    if (auto ok = check_name("table", table.table); !ok) return ok;
    if (table.table.starts_with('.') || table.table.ends_with('.') || std::ranges::count(table.table, '.') > 1) {
        return permanent("bad_argument", "table must be a name or schema.name, not \"" + one_line(table.table) + "\"");
    }
    if (table.shards < 1 || table.shards > kMaxShards) {
        return permanent("bad_argument", "shards must be between 1 and " + std::to_string(kMaxShards));
    }
    return check_columns(table.columns);
}

bool keeps_failures(const EventColumns& columns) {
    return !columns.retry_count.empty();
}

std::vector<std::pair<std::string, std::string>> event_headers(std::string_view metadata) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (metadata == "{}") return headers;
    Scanner scanner(metadata);
    if (!scanner.take('{')) return {};
    if (scanner.take('}')) return {};
    do {
        auto name = scanner.string();
        if (!name || !scanner.take(':')) return {};
        auto value = scanner.at_string() ? scanner.string() : scanner.raw();
        if (!value) return {};
        headers.emplace_back(std::move(*name), std::move(*value));
    } while (scanner.take(','));
    return scanner.take('}') ? headers : std::vector<std::pair<std::string, std::string>>();
}

std::int32_t shard_share(std::int32_t shards, std::int32_t relays, std::int32_t rank) {
    if (relays < 1) return 0;
    return shards / relays + (rank < shards % relays ? 1 : 0);
}

Failure other_shards(const std::string& lane, std::int32_t shards, const StoredShards& stored) {
    return retryable(std::string(kOtherShards),
                     "the lane " + lane + " is relayed with " + std::to_string(stored.count) +
                         " shards (other relays that are alive: " + std::to_string(stored.others) +
                         "), but shards is " + std::to_string(shards) +
                         " here: waiting until they have ended; stop them, or use the same number for all");
}

}  // namespace deliverd::store
