// Every setting's text in force and where it came from: the file checked against the list of settings, with
// environment variables and secret files put in. Typed values are made from this in config.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/config_file.h"
#include "app/settings.h"
#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::app {

/// Answers an environment variable; injected, so that tests decide.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Value {
    std::string text;
    std::string origin;  // "deliverd.yaml:12", "DATABASE_URL", "--database"
    int line = 0;
    const Setting* setting = nullptr;
    std::string file{};  // where a secret was read from; empty when it stood in the configuration
};

/// Typed reading falls back to the setting's default; texts were checked before, so it cannot fail.
/// Paths are concrete: "lanes.memories.batch_size", "auth.tokens[0].role".
class Values {
public:
    void set(std::string path, Value value) { values_.insert_or_assign(std::move(path), std::move(value)); }
    void set_section(std::string path, int line) { sections_.emplace(std::move(path), line); }

    [[nodiscard]] const Value* find(const std::string& path) const;
    [[nodiscard]] bool has(const std::string& path) const { return find(path) != nullptr; }
    [[nodiscard]] int line_of(const std::string& path) const;  // of a value or section; 0 when unknown

    [[nodiscard]] std::string text(const std::string& path) const;
    [[nodiscard]] std::int64_t integer(const std::string& path) const;
    [[nodiscard]] double number(const std::string& path) const;
    [[nodiscard]] bool boolean(const std::string& path) const;
    [[nodiscard]] Duration seconds(const std::string& path) const;
    [[nodiscard]] std::optional<Duration> seconds_or_never(const std::string& path) const;  // none: never
    [[nodiscard]] Duration millis(const std::string& path) const;
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> text_map(const std::string& path) const;

    [[nodiscard]] std::vector<std::string> text_list(const std::string& path) const;

    /// The names directly below a section with a user's names ("lanes"), in the file's order.
    [[nodiscard]] std::vector<std::string> names_below(const std::string& section) const;
    /// How many entries a list ("auth.tokens") has.
    [[nodiscard]] std::size_t entries(const std::string& list) const;

    /// The outbox of the lane that `path` lies in; empty when it is in none, or that has none.
    [[nodiscard]] std::string outbox_of(std::string_view path) const;
    /// The same for the type of that lane's sink.
    [[nodiscard]] std::string sink_of(std::string_view path) const;
    /// The default in force at `path`.
    [[nodiscard]] std::string_view fallback_of(const std::string& path) const;

    [[nodiscard]] const std::map<std::string, Value>& all() const { return values_; }

private:
    std::map<std::string, Value> values_;
    std::map<std::string, int> sections_;
};

/// An integer setting as a size or count.
template <typename Size = std::size_t>
[[nodiscard]] Size count_of(const Values& values, const std::string& path) {
    return static_cast<Size>(values.integer(path));
}

/// "lanes.memories.sink.url" → "lanes.*.sink.url".
[[nodiscard]] std::string pattern_of(std::string_view path);

/// Checks a file's tree against the list of settings. `file` is its name for messages.
[[nodiscard]] Values read_values(const Node& root, const std::string& file, const Environment& environment,
                                 std::vector<Problem>& problems);

/// What is wrong with `text` as a value of `setting`; empty when nothing.
[[nodiscard]] std::string check_text(const Setting& setting, std::string_view path, std::string_view text);

/// "90", "1.5", "500ms", "5m", "7d" in seconds.
[[nodiscard]] std::optional<double> parse_seconds(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

/// The content of a secret's file without its trailing line break; at most 64 KiB. Unexpected: why not.
[[nodiscard]] Result<std::string> read_secret_file(const std::string& path);

}  // namespace deliverd::app
