#include "base/json_text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace deliverd {
namespace {

TEST(TerminalSafe, EscapesWhatSteersATerminalAndMeansTheSame) {
    const std::string steering = "\u007f\u0080\u0085\u009b31m\u009f\u202a\u202e\u2066\u2069";
    const std::string safe = R"(\u007f\u0080\u0085\u009b31m\u009f\u202a\u202e\u2066\u2069)";
    EXPECT_EQ(terminal_safe(steering), safe);
    EXPECT_EQ(boost::json::parse("\"" + terminal_safe(steering) + "\"").as_string(), steering);
}

TEST(TerminalSafe, LeavesEverythingElse) {
    for (const std::string_view text :
         {"", "{\"a\":\"\\u001b\"}\n", "~\u00a0\u00e9\u2029\u202f\u2065\u206a\u20ac\U0001f600", "\xc2", "\xe2\x80",
          "\xe2"}) {
        EXPECT_EQ(terminal_safe(text), text);
    }
}

}  // namespace
}  // namespace deliverd
