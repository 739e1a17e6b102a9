// Any text as a configuration file: it is accepted, or every problem is one line that names a line of the file. The
// limits hold, an accepted configuration is usable, and secrets are not shown.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "config/load.h"
#include "config/yaml.h"
#include "require.h"

namespace deliverd::fuzz {
namespace {

using namespace config;

constexpr std::string_view kSecret = "s3cr3t-0d1f2a3b";
const std::string kFile = "deliverd.yaml";

std::optional<std::string> environment(const std::string& name) {
    if (name == "SECRET") return std::string(kSecret);
    if (name == "PORT") return "8081";
    return std::nullopt;
}

int lines_in(std::string_view text) {
    return 1 + static_cast<int>(std::ranges::count(text, '\n') + std::ranges::count(text, '\r'));
}

/// The number of nodes. Fails if the tree breaks a rule of config/yaml.h.
int check_tree(const Node& node, int depth, int last_line) {
    require(depth <= kMaxConfigDepth + 1, "a tree is no deeper than its limit");
    require(node.line >= 0 && node.line <= last_line, "a value has a line of the file");
    require(node.kind == Node::Kind::map || node.members.empty(), "only maps have members");
    require(node.kind == Node::Kind::list || node.items.empty(), "only lists have items");
    int nodes = 1;
    std::set<std::string_view> names;
    for (const Node::Member& member : node.members) {
        require(names.insert(member.name).second, "no map has a key twice");
        nodes += check_tree(member.value, depth + 1, last_line);
    }
    for (const Node& item : node.items) nodes += check_tree(item, depth + 1, last_line);
    return nodes;
}

void check_problem(const std::string& problem, int last_line) {
    require(!problem.empty() && one_line(problem) == problem, "a problem is one line of text");
    const std::string place = kFile + ":";
    if (!problem.starts_with(place)) return;
    const int line = std::atoi(problem.c_str() + place.size());
    require(line >= 1 && line <= last_line, "a problem names a line of the file");
}

void check_accepted(const Config& config) {
    require(config.server.max_body_bytes <= config.server.max_total_body_bytes, "the longest body can be read");
    require(config.server.header_timeout > Duration::zero() && config.shutdown_patience >= Duration::zero(),
            "timeouts are times");
    require(config.auth.enabled || config.auth.doors.check_origin, "without tokens, origins are checked");
    for (const LaneConfig& lane : config.lanes) {
        require(config.find_lane(lane.options.name) == &lane, "lanes have different names");
        require(lane.options.batch_size > 0 && lane.options.parallelism > 0 && lane.options.lease > Duration::zero(),
                "a lane can work");
        require(lane.options.busy_poll <= lane.options.idle_poll, "an idle lane polls less often");
    }
}

void check_shown(const Values& values) {
    for (const auto& [path, value] : values.all()) {
        if (value.setting == nullptr || !value.setting->secret) continue;
        require(shown_value(path, value).find(kSecret) == std::string::npos || path == "database.url",
                "a secret is not shown");
    }
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    const std::string text(fuzz::text_of(data, size));
    if (text.find("_file") != std::string::npos) return -1;  // it would read files of this machine
    const int last_line = fuzz::lines_in(text);

    std::vector<config::Problem> problems;
    const config::Node tree = config::parse_yaml(text, problems);
    const int nodes = fuzz::check_tree(tree, 0, last_line);
    fuzz::require(nodes <= config::kMaxConfigNodes || !problems.empty(), "a tree is no larger than its limit");

    fuzz::check_shown(config::read_values(tree, fuzz::kFile, fuzz::environment, problems));
    if (text.find("brokers") != std::string::npos)
        return 0;  // it would create a client to check them, which takes long

    const auto loaded = config::load_config_text(text, fuzz::kFile, {}, fuzz::environment);
    for (const std::string& problem : loaded.problems) fuzz::check_problem(problem, last_line);
    fuzz::require(problems.empty() || !loaded.problems.empty(), "a file with a problem is not accepted");
    if (loaded.problems.empty()) fuzz::check_accepted(loaded.config);
    return 0;
}
