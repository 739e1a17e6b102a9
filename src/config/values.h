// The text of every setting that is given, and where it came from: the file checked against the list of settings, with
// environment variables and secret files inserted. Texts are kept beside the typed configuration because `config show`
// prints each with its origin, and every problem names the line of what it is about.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "config/yaml.h"
#include "deliverd/result.h"

namespace deliverd::config {

/// Looks up an environment variable; a parameter, so that tests choose the answers.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Value {
    std::string text;
    std::string origin;  // "deliverd.yaml:12", "DATABASE_URL", "--database"
    int line = 0;
    const Setting* setting = nullptr;
    std::string file{};  // the file that a secret was read from; empty: it is in the configuration
};

/// Paths are concrete: "lanes.memories.batch_size", "auth.tokens[0].role".
class Values {
public:
    void set(std::string path, Value value) { values_.insert_or_assign(std::move(path), std::move(value)); }
    void set_section(std::string path, int line) { sections_.emplace(std::move(path), line); }

    [[nodiscard]] const Value* find(const std::string& path) const {
        const auto found = values_.find(path);
        return found == values_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] bool has(const std::string& path) const { return find(path) != nullptr; }
    [[nodiscard]] bool has_section(const std::string& path) const { return sections_.contains(path); }
    /// The line of a value or section; of the section around one that is missing; 0 when it is not from the file.
    [[nodiscard]] int line_of(std::string path) const;

    /// The entries of a text_map, without those of other settings.
    [[nodiscard]] TextMap text_map(const std::string& path) const;

    /// The names directly below a section with a user's names ("lanes"), in the file's order.
    [[nodiscard]] std::vector<std::string> names_below(const std::string& section) const;
    /// How many entries a list ("auth.tokens") has.
    [[nodiscard]] std::size_t entries(const std::string& list) const {
        std::size_t count = 0;
        while (sections_.contains(fmt::format("{}[{}]", list, count))) ++count;
        return count;
    }

    /// The outbox of the lane that `path` is in; empty when it is in no lane, or the lane has no outbox.
    [[nodiscard]] std::string outbox_of(std::string_view path) const { return of_lane(path, ".outbox"); }
    /// The same for the type of that lane's sink.
    [[nodiscard]] std::string sink_of(std::string_view path) const { return of_lane(path, ".sink.type"); }

    [[nodiscard]] const std::map<std::string, Value>& all() const { return values_; }

private:
    [[nodiscard]] std::string of_lane(std::string_view path, std::string_view setting) const;

    std::map<std::string, Value> values_;
    std::map<std::string, int> sections_;
};

/// What checks find: each problem is at the line of the setting or section that it is about.
class Problems {
public:
    /// Both outlive it.
    Problems(const Values& values, std::vector<Problem>& list) : values_(values), list_(list) {}

    [[nodiscard]] const Values& values() const { return values_; }
    [[nodiscard]] std::size_t count() const { return list_.size(); }

    template <typename... Args>
    void add(const std::string& path, fmt::format_string<Args...> message, Args&&... args) {
        list_.push_back({values_.line_of(path), fmt::format(message, std::forward<Args>(args)...)});
    }
    /// The message is `path` with `text` behind it.
    template <typename... Args>
    void about(const std::string& path, fmt::format_string<Args...> text, Args&&... args) {
        add(path, "{}{}", path, fmt::format(text, std::forward<Args>(args)...));
    }
    /// The same, unless `holds`.
    template <typename... Args>
    void require(bool holds, const std::string& path, fmt::format_string<Args...> text, Args&&... args) {
        if (!holds) about(path, text, std::forward<Args>(args)...);
    }
    /// The same for what has failed; `text` takes the failure's message.
    template <typename Value>
    void require(const Result<Value>& good, const std::string& path, fmt::format_string<const std::string&> text) {
        if (!good) about(path, text, good.error().message);
    }
    /// A key that was given but refused has its own problem already; it is not missing on top of that.
    [[nodiscard]] bool are_about(const std::string& path) const {
        return std::ranges::any_of(list_, [&](const Problem& problem) { return problem.message.starts_with(path); });
    }

private:
    const Values& values_;
    std::vector<Problem>& list_;
};

/// Checks a file's tree against the list of settings. `file` is its name for messages.
[[nodiscard]] Values read_values(const Node& root, const std::string& file, const Environment& environment,
                                 std::vector<Problem>& problems);

/// The content of a secret's file without its trailing line break, at most 64 KiB. Failure: names the file and the
/// reason (permanent, `unreadable`).
[[nodiscard]] Result<std::string> read_secret_file(const std::string& path);

}  // namespace deliverd::config
