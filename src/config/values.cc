#include "config/values.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/text.h"

namespace deliverd::config {

namespace {

constexpr std::size_t kMaxSecretBytes = 64 * 1024;

constexpr std::size_t kMaxNameLength = 64;

// Names become parts of paths, in which "." and "[" have a meaning, and labels of metrics and logs.
bool is_good_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameLength &&
           std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; });
}

std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
}

/// Walks over a file's tree: checks keys and types, inserts environment variables and secret files.
class Reader {
public:
    Reader(const std::string& file, const Environment& environment, std::vector<Problem>& problems)
        : file_(file), environment_(environment), problems_(problems) {}

    Values read(const Node& root) {
        if (root.kind == Node::Kind::map) {
            section(root, "", "");
        } else if (root.kind != Node::Kind::nothing) {
            problem(root.line, "the file must hold settings, such as `server:` with `port: 8080` below it");
        }
        return std::move(values_);
    }

private:
    template <typename... Args>
    void problem(int line, fmt::format_string<Args...> message, Args&&... args) {
        problems_.push_back({line, fmt::format(message, std::forward<Args>(args)...)});
    }

    // An unknown key is a problem, never ignored: a misspelt setting would leave its default in force unnoticed.
    void section(const Node& node, const std::string& path, const std::string& pattern) {
        if (node.kind == Node::Kind::nothing) return;
        if (node.kind != Node::Kind::map) {
            return problem(node.line, "{} must hold settings, not a single value", path);
        }
        const std::vector<std::string> names = names_in(pattern);
        const bool any_name = names.size() == 1 && names.front() == "*";
        for (const Node::Member& member : node.members) {
            if (any_name && !is_good_name(member.name)) {
                problem(member.line, "\"{}\" cannot be a name in {}: use letters, digits, _ and -", member.name, path);
            } else if (any_name || std::ranges::find(names, member.name) != names.end()) {
                member_of(member, join(path, member.name), join(pattern, any_name ? "*" : member.name));
            } else {
                unknown_key(member, path, names);
            }
        }
    }

    void unknown_key(const Node::Member& member, const std::string& path, const std::vector<std::string>& names) {
        const std::vector<std::string_view> views(names.begin(), names.end());
        const auto meant = nearest(member.name, views);
        problem(member.line, "unknown key \"{}\"{}; {}", member.name, path.empty() ? "" : " in " + path,
                meant ? fmt::format("did you mean \"{}\"?", *meant)
                      : fmt::format("known keys: {}", fmt::join(views, ", ")));
    }

    void member_of(const Node::Member& member, const std::string& path, const std::string& pattern) {
        if (const Setting* setting = find_setting(pattern)) {
            if (setting->type == SettingType::text_map) return text_map(member, path, *setting);
            if (setting->type == SettingType::text_list) return text_list(member, path, *setting);
            return leaf(member, path, *setting);
        }
        if (const Setting* setting = find_file_form(pattern)) return file_form(member, path, *setting);
        // Recorded even when nothing is in it: an empty `auth.tokens` or `kafka` says something by being there.
        values_.set_section(path, member.line);
        if (is_section(pattern + "[]")) return list(member, path, pattern + "[]");
        section(member.value, path, pattern);
    }

    void list(const Node::Member& member, const std::string& path, const std::string& pattern) {
        if (member.value.kind == Node::Kind::nothing) return;
        if (member.value.kind != Node::Kind::list) return problem(member.line, "{} must be a list", path);
        for (std::size_t i = 0; i < member.value.items.size(); ++i) {
            const std::string item = fmt::format("{}[{}]", path, i);
            values_.set_section(item, member.value.items[i].line);
            section(member.value.items[i], item, pattern);
        }
    }

    void text_map(const Node::Member& member, const std::string& path, const Setting& setting) {
        const Node& value = member.value;
        if (value.kind == Node::Kind::nothing) return;
        if (value.kind == Node::Kind::scalar && is_listed(setting.choices, value.text)) {
            return leaf(member, path, setting);
        }
        if (value.kind != Node::Kind::map) {
            return problem(member.line, "{} must be {}", path, describe_type(setting));
        }
        for (const Node::Member& entry : value.members) leaf(entry, join(path, entry.name), setting);
    }

    void text_list(const Node::Member& member, const std::string& path, const Setting& setting) {
        if (member.value.kind != Node::Kind::list) return leaf(member, path, setting);
        // One text with commas, whichever form the file has: `config show` and check_text() know texts only.
        std::string joined;
        for (const Node& item : member.value.items) {
            const auto text = scalar(item, item.line, path);
            if (!text) return;
            joined += (joined.empty() ? "" : ",") + *text;
        }
        store(path, joined, member.line, setting);
    }

    void leaf(const Node::Member& member, const std::string& path, const Setting& setting) {
        if (const auto text = scalar(member.value, member.line, path)) store(path, *text, member.line, setting);
    }

    void file_form(const Node::Member& member, const std::string& path, const Setting& setting) {
        const auto name = scalar(member.value, member.line, path);
        if (!name) return;
        // Now, not when it is needed: a secret that cannot be read must fail the start.
        const auto content = read_secret_file(*name);
        if (!content) return problem(member.line, "{}: {}", path, content.error().message);
        if (content->empty()) return problem(member.line, "{}: {} is empty; put the secret there", path, *name);
        const std::string target = path.substr(0, path.size() - std::string_view("_file").size());
        store(target, *content, member.line, setting, *name);
    }

    /// The value with every ${NAME} replaced; none, and a problem, when that cannot be done.
    std::optional<std::string> scalar(const Node& value, int line, const std::string& path) {
        if (value.kind == Node::Kind::scalar) return interpolate(value.text, line, path);
        problem(line, "{} {}", path, value.kind == Node::Kind::nothing ? "has no value" : "must be a single value");
        return std::nullopt;
    }

    std::optional<std::string> interpolate(std::string_view text, int line, const std::string& path) {
        std::string out;
        bool ok = true;
        for (std::size_t start = 0; (start = text.find("${")) != std::string_view::npos;) {
            if (start > 0 && text[start - 1] == '$') {  // $${ is a literal ${
                out.append(text.substr(0, start - 1)).append("${");
                text.remove_prefix(start + 2);
                continue;
            }
            const std::size_t end = text.find('}', start);
            if (end == std::string_view::npos) {
                problem(line, "{}: \"${{\" without \"}}\"; write \"$${{\" for a literal one", path);
                return std::nullopt;
            }
            const std::string name(text.substr(start + 2, end - start - 2));
            const auto value = environment_(name);
            // The rest is read all the same: a user wants to know every variable that is not set at once.
            if (!value) problem(line, "{}: environment variable \"{}\" is not set", path, name);
            ok = ok && value.has_value();
            out.append(text.substr(0, start)).append(value.value_or(""));
            text.remove_prefix(end + 1);
        }
        return ok ? std::optional(out.append(text)) : std::nullopt;
    }

    /// `file` is where a secret was read from.
    void store(const std::string& path, const std::string& text, int line, const Setting& setting,
               const std::string& file = {}) {
        if (const std::string wrong = check_text(setting, path, text); !wrong.empty())
            return problem(line, "{}", wrong);
        // yaml.cc refuses a key that is repeated, so the other value is of the other form.
        if (values_.has(path)) return problem(line, "{0} and {0}_file are both given; keep one", path);
        const std::string origin = fmt::format("{}:{}{}", file_, line, file.empty() ? "" : ", file " + file);
        values_.set(path, {text, origin, line, &setting, file});
    }

    const std::string& file_;
    const Environment& environment_;
    std::vector<Problem>& problems_;
    Values values_;
};

}  // namespace

int Values::line_of(std::string path) const {
    for (;;) {
        if (const Value* value = find(path)) return value->line;
        if (const auto section = sections_.find(path); section != sections_.end()) return section->second;
        // A setting that is missing is a problem of the section that it is missing in.
        const std::size_t end = path.find_last_of(".[");
        if (end == std::string::npos) return 0;
        path.resize(end);
    }
}

std::string Values::of_lane(std::string_view path, std::string_view setting) const {
    constexpr std::string_view kLanes = "lanes.";
    if (!path.starts_with(kLanes)) return {};
    const Value* value = find(std::string(path.substr(0, path.find('.', kLanes.size()))).append(setting));
    return value == nullptr ? std::string() : value->text;
}

TextMap Values::text_map(const std::string& path) const {
    TextMap out;
    const std::string prefix = path + ".";
    for (const auto& [name, value] : values_) {
        if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), value.text);
    }
    return out;
}

std::vector<std::string> Values::names_below(const std::string& section) const {
    std::vector<std::pair<int, std::string>> found;
    const std::string prefix = section + ".";
    for (const auto& [path, line] : sections_) {
        if (path.starts_with(prefix) && path.find('.', prefix.size()) == std::string::npos) {
            found.emplace_back(line, path.substr(prefix.size()));
        }
    }
    // By line: the map is in the order of names, and lanes are started and listed as the file has them.
    std::ranges::sort(found);
    std::vector<std::string> names;
    for (auto& [line, name] : found) names.push_back(std::move(name));
    return names;
}

Result<std::string> read_secret_file(const std::string& path) {
    const auto unreadable = [&](std::string_view why) {
        return permanent("unreadable", fmt::format("{}: {}", path, why));
    };
    // The standard does not promise that a stream sets errno: without this, an old error would be reported.
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return unreadable(std::strerror(errno));
    // One byte more than allowed, to notice a file that is too long.
    std::string content(kMaxSecretBytes + 1, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    // A folder can be opened like a file; only reading it fails.
    if (file.bad() || (file.gcount() == 0 && !file.eof())) return unreadable("cannot be read");
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (content.size() > kMaxSecretBytes) return unreadable(fmt::format("longer than {} bytes", kMaxSecretBytes));
    // Editors and `echo` end a file with one line break that is not part of the secret; any other may be.
    if (content.ends_with('\n')) content.pop_back();
    if (content.ends_with('\r')) content.pop_back();
    return content;
}

Values read_values(const Node& root, const std::string& file, const Environment& environment,
                   std::vector<Problem>& problems) {
    return Reader(file, environment, problems).read(root);
}

}  // namespace deliverd::config
