#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

namespace deliverd::config {

namespace {

class Converter {
public:
    explicit Converter(std::vector<Problem>& problems) : problems_(problems) {}

    Node convert(const YAML::Node& from, int depth) {
        Node node;
        node.line = from.Mark().line + 1;
        // Counted while converting: an alias is unfolded at each use, so nine short lines can mean a billion values.
        if (++nodes_ > kMaxConfigNodes || depth > kMaxConfigDepth) {
            if (!complained_) {
                problems_.push_back(
                    {node.line, fmt::format("the file is nested deeper than {} levels or has more than {} values",
                                            kMaxConfigDepth, kMaxConfigNodes)});
            }
            complained_ = true;
            return node;
        }
        if (from.IsScalar()) {
            node.kind = Node::Kind::scalar;
            node.text = from.Scalar();
        } else if (from.IsSequence()) {
            node.kind = Node::Kind::list;
            for (const YAML::Node& item : from) node.items.push_back(convert(item, depth + 1));
        } else if (from.IsMap()) {
            convert_map(from, depth, node);
        }
        return node;
    }

private:
    void convert_map(const YAML::Node& from, int depth, Node& node) {
        node.kind = Node::Kind::map;
        std::map<std::string, int> first_lines;
        for (const auto& pair : from) {
            const int line = pair.first.Mark().line + 1;
            // YAML allows lists and maps as keys; no setting is called so.
            if (!pair.first.IsScalar()) {
                problems_.push_back({line, "a key must be plain text"});
                continue;
            }
            const std::string name = pair.first.Scalar();
            // yaml-cpp accepts a key twice; only the user knows which of the two was meant.
            const auto [at, fresh] = first_lines.emplace(name, line);
            if (!fresh) {
                problems_.push_back(
                    {line, fmt::format("key \"{}\" is repeated; the first is on line {}", name, at->second)});
                continue;
            }
            node.members.push_back({name, line, convert(pair.second, depth + 1)});
        }
    }

    std::vector<Problem>& problems_;
    int nodes_ = 0;
    bool complained_ = false;
};

/// Records where a document starts.
class DocumentStart final : public YAML::EventHandler {
public:
    void OnDocumentStart(const YAML::Mark& mark) override { line = mark.line + 1; }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
    void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}

    int line = 0;
};

/// The line where a second document starts, if there is one. YAML::LoadAll() loops for ever on a stray comma, where
/// yaml-cpp reads a document without consuming text.
std::optional<int> second_document(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentStart start;
    for (int documents = 0; documents < 2; ++documents) {
        if (!parser.HandleNextDocument(start)) return std::nullopt;
    }
    return start.line;
}

struct Variable {
    int line = 0;
    std::string text;  // "${NAME}"
};

/// The first unquoted ${NAME} within { } or [ ], where YAML reads its braces as its own. Only called for text that YAML
/// has refused, so it need not know all of YAML: strings start after an indicator or space.
std::optional<Variable> unquoted_variable(std::string_view text) {
    int line = 1;
    int depth = 0;
    char quote = 0;
    char before = '\n';
    for (std::size_t i = 0; i < text.size(); before = text[i++]) {
        const char c = text[i];
        const bool starts = std::string_view(" \t\n,:[{").find(before) != std::string_view::npos;
        if (c == '\n') ++line;
        if (quote != 0) {
            if (c == '\\' && quote == '"' && i + 1 < text.size()) ++i;
            if (c == quote) quote = 0;
        } else if ((c == '"' || c == '\'') && starts) {
            quote = c;
        } else if (c == '#' && starts) {
            i = std::min(text.find('\n', i), text.size()) - 1;
        } else if (c == '$' && depth > 0 && text.substr(i).starts_with("${")) {
            const std::size_t end = text.find_first_of("}\n", i);
            return Variable{line, std::string(text.substr(i, end - i)) + "}"};
        } else if (c == '{' || c == '[') {
            ++depth;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return std::nullopt;
}

Problem syntax_problem(const YAML::Exception& error, const std::string& text) {
    if (const auto variable = unquoted_variable(text)) {
        return {variable->line,
                fmt::format("not valid YAML: within {{ }} or [ ] a variable must be quoted: \"{}\"", variable->text)};
    }
    return {error.mark.is_null() ? 1 : error.mark.line + 1, "not valid YAML: " + error.msg};
}

}  // namespace

Node parse_yaml(const std::string& text, std::vector<Problem>& problems) {
    const auto refuse = [&](Problem problem) {
        problems.push_back(std::move(problem));
        return Node();
    };
    if (text.size() > kMaxConfigBytes) {
        return refuse({1, fmt::format("the file is longer than {} bytes", kMaxConfigBytes)});
    }
    if (text.find('\0') != std::string::npos) return refuse({1, "the file has a NUL byte, so it is not a text file"});
    try {
        // YAML::Load() reads one document and ignores the rest: half of a file would not be in force.
        if (const auto line = second_document(text)) {
            problems.push_back({*line, "a second document starts here; only one is read"});
        }
        return Converter(problems).convert(YAML::Load(text), 0);
    } catch (const YAML::Exception& error) {
        return refuse(syntax_problem(error, text));
    }
}

}  // namespace deliverd::config
