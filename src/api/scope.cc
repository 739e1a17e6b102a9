#include "api/scope.h"

#include <algorithm>

#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::api {

bool Scope::allows(std::string_view topic) const {
    return !topics || std::ranges::any_of(*topics, [topic](const std::string& pattern) {
        return deadletter::matches_pattern(topic, pattern);
    });
}

bool Scope::allows(const store::Letter& letter) const {
    return allows(letter.provenance.original_topic) || (letter.topic && allows(*letter.topic));
}

}  // namespace deliverd::api
