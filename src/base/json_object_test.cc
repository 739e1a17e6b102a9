#include "base/json_object.h"

#include <gtest/gtest.h>

namespace deliverd {
namespace {

TEST(JsonObject, WritesItsMembersInTheOrderTold) {
    JsonObject object;
    object.text("z", std::string_view("say \"hi\"\n\xFF"));
    object.text("none", std::optional<std::string>());
    object.number("n", std::int64_t{-7});
    object.number("no_n", std::optional<std::int64_t>());
    object.boolean("b", true);
    object.time("t", WallTime(std::chrono::microseconds(1'771'583'400'123'456)));
    object.time("no_t", std::optional<WallTime>());
    object.raw("j", "{\"a\":1.00}");
    EXPECT_EQ(object.done(),
              "{\"z\":\"say \\\"hi\\\"\\n\xEF\xBF\xBD\",\"none\":null,\"n\":-7,\"no_n\":null,\"b\":true,"
              "\"t\":\"2026-02-20T10:30:00.123+00:00\",\"no_t\":null,\"j\":{\"a\":1.00}}");
}

TEST(JsonObject, EmptyOnesAreJsonToo) {
    EXPECT_EQ(JsonObject().done(), "{}");
    EXPECT_EQ(JsonArray().done(), "[]");
    JsonArray array;
    array.raw("1");
    array.raw("{}");
    EXPECT_EQ(array.done(), "[1,{}]");
}

}  // namespace
}  // namespace deliverd
