// Walks over a configuration file's tree: checks keys and types, inserts environment variables and secret files.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "config/settings.h"
#include "config/values.h"

namespace deliverd::config {

namespace {

constexpr std::size_t kMaxNameLength = 64;

bool is_good_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameLength &&
           std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; });
}

std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
}

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
    void problem(int line, std::string message) { problems_.push_back({line, std::move(message)}); }

    void section(const Node& node, const std::string& path, const std::string& pattern) {
        if (node.kind == Node::Kind::nothing) return;
        if (node.kind != Node::Kind::map) {
            return problem(node.line, fmt::format("{} must hold settings, not a single value", path));
        }
        const std::vector<std::string> names = names_in(pattern);
        const bool any_name = names.size() == 1 && names.front() == "*";
        for (const Node::Member& member : node.members) {
            if (any_name && !is_good_name(member.name)) {
                problem(member.line,
                        fmt::format("\"{}\" cannot be a name in {}: use letters, digits, _ and -", member.name, path));
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
        std::string advice =
            meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("known are: {}", fmt::join(views, ", "));
        problem(member.line, fmt::format("unknown key \"{}\"{}; {}", member.name,
                                         path.empty() ? std::string() : " in " + path, advice));
    }

    void member_of(const Node::Member& member, const std::string& path, const std::string& pattern) {
        if (const Setting* setting = find_setting(pattern)) {
            if (setting->type == SettingType::text_map) return text_map(member, path, *setting);
            if (setting->type == SettingType::text_list) return text_list(member, path, *setting);
            return leaf(member, path, *setting);
        }
        if (const Setting* setting = find_file_form(pattern)) return file_form(member, path, *setting);
        values_.set_section(path, member.line);
        if (is_section(pattern + "[]")) return list(member, path, pattern + "[]");
        section(member.value, path, pattern);
    }

    void list(const Node::Member& member, const std::string& path, const std::string& pattern) {
        if (member.value.kind == Node::Kind::nothing) return;
        if (member.value.kind != Node::Kind::list) return problem(member.line, path + " must be a list");
        for (std::size_t i = 0; i < member.value.items.size(); ++i) {
            const std::string item = fmt::format("{}[{}]", path, i);
            values_.set_section(item, member.value.items[i].line);
            section(member.value.items[i], item, pattern);
        }
    }

    void text_map(const Node::Member& member, const std::string& path, const Setting& setting) {
        if (member.value.kind == Node::Kind::nothing) return;
        if (!setting.choices.empty() && member.value.kind == Node::Kind::scalar &&
            is_listed(setting.choices, member.value.text)) {
            return leaf(member, path, setting);
        }
        if (member.value.kind != Node::Kind::map) {
            return problem(member.line, fmt::format("{} must be {}", path, describe_type(setting)));
        }
        for (const Node::Member& entry : member.value.members) leaf(entry, join(path, entry.name), setting);
    }

    void text_list(const Node::Member& member, const std::string& path, const Setting& setting) {
        if (member.value.kind != Node::Kind::list) return leaf(member, path, setting);
        std::string joined;
        for (const Node& item : member.value.items) {
            const auto text = scalar(Node::Member{.name = member.name, .line = item.line, .value = item}, path);
            if (!text) return;
            joined += (joined.empty() ? "" : ",") + *text;
        }
        store(path, joined, member.line, setting, fmt::format("{}:{}", file_, member.line));
    }

    /// The value with every ${NAME} replaced; none, and a problem, when that cannot be done.
    std::optional<std::string> scalar(const Node::Member& member, const std::string& path) {
        if (member.value.kind == Node::Kind::nothing) {
            problem(member.line, path + " has no value");
            return std::nullopt;
        }
        if (member.value.kind != Node::Kind::scalar) {
            problem(member.line, path + " must be a single value");
            return std::nullopt;
        }
        return interpolate(member.value.text, member.line, path);
    }

    std::optional<std::string> interpolate(std::string_view text, int line, const std::string& path) {
        std::string out;
        bool ok = true;
        while (!text.empty()) {
            const std::size_t start = text.find("${");
            if (start == std::string_view::npos) {
                out += text;
                break;
            }
            if (start > 0 && text[start - 1] == '$') {  // $${ is a literal ${
                out += text.substr(0, start - 1);
                out += "${";
                text.remove_prefix(start + 2);
                continue;
            }
            const std::size_t end = text.find('}', start);
            if (end == std::string_view::npos) {
                problem(line, fmt::format("{}: \"${{\" without \"}}\"; write \"$${{\" for a literal one", path));
                return std::nullopt;
            }
            const std::string name(text.substr(start + 2, end - start - 2));
            const auto value = environment_(name);
            if (!value) {
                problem(line, fmt::format("{}: environment variable \"{}\" is not set", path, name));
                ok = false;
            }
            out += text.substr(0, start);
            out += value.value_or("");
            text.remove_prefix(end + 1);
        }
        return ok ? std::optional(out) : std::nullopt;
    }

    void leaf(const Node::Member& member, const std::string& path, const Setting& setting) {
        const auto text = scalar(member, path);
        if (text) store(path, *text, member.line, setting, fmt::format("{}:{}", file_, member.line));
    }

    void file_form(const Node::Member& member, const std::string& path, const Setting& setting) {
        const auto name = scalar(member, path);
        if (!name) return;
        const auto content = read_secret_file(*name);
        if (!content) return problem(member.line, fmt::format("{}: {}", path, content.error().message));
        if (content->empty()) {
            return problem(member.line, fmt::format("{}: {} is empty; put the secret there", path, *name));
        }
        const std::string target = path.substr(0, path.size() - std::string_view("_file").size());
        store(target, *content, member.line, setting, fmt::format("{}:{}, file {}", file_, member.line, *name), *name);
    }

    void store(const std::string& path, const std::string& text, int line, const Setting& setting, std::string origin,
               std::string secret_file = {}) {
        if (const std::string wrong = check_text(setting, path, text); !wrong.empty()) return problem(line, wrong);
        if (values_.has(path)) {
            return problem(line, fmt::format("{0} and {0}_file are both given; keep one", path));
        }
        values_.set(path, Value{text, std::move(origin), line, &setting, std::move(secret_file)});
    }

    const std::string& file_;
    const Environment& environment_;
    std::vector<Problem>& problems_;
    Values values_;
};

}  // namespace

Values read_values(const Node& root, const std::string& file, const Environment& environment,
                   std::vector<Problem>& problems) {
    return Reader(file, environment, problems).read(root);
}

}  // namespace deliverd::config
