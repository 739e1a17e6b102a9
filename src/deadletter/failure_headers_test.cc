#include "deadletter/failure_headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace deliverd::deadletter {
namespace {

TEST(FailureHeaders, EveryNameStandsOnce) {
    std::set<std::string_view> names;
    for (const FailureHeader& header : failure_headers()) {
        EXPECT_TRUE(names.insert(header.name).second) << header.name;
        EXPECT_EQ(failure_header(header.name), &header) << header.name;
    }
}

TEST(FailureHeaders, FamiliesStandTogetherAndEachNamesAnOrigin) {
    std::vector<std::string_view> families;
    for (const FailureHeader& header : failure_headers()) {
        if (families.empty() || families.back() != header.family) families.push_back(header.family);
    }
    EXPECT_EQ(std::set(families.begin(), families.end()).size(), families.size()) << "a family is torn apart";
    for (const std::string_view family : families) {
        EXPECT_TRUE(std::ranges::any_of(failure_headers(), [family](const FailureHeader& header) {
            return header.family == family && header.meaning == Meaning::original_topic;
        })) << family;
    }
    EXPECT_EQ(families.front(), kPlainFamily);
}

TEST(FailureHeaders, WhatIsNearlyAFailureHeaderIsNone) {
    for (const std::string_view name : {"", "Error", "errors", "erro", "kafka_dlt-", "kafka_dlt-original-topic2",
                                        "__connect.errors.", "trace_id", "deliverd-replays", "zzz"}) {
        EXPECT_EQ(failure_header(name), nullptr) << name;
    }
}

TEST(FailureHeaders, MeaningsAndFormsHaveWords) {
    for (const FailureHeader& header : failure_headers()) {
        EXPECT_NE(to_string(header.meaning), "unknown");
        EXPECT_NE(to_string(header.form), "unknown");
    }
    EXPECT_EQ(to_string(Meaning::original_topic), "original topic");
    EXPECT_EQ(to_string(Form::int64_be), "8-byte big-endian integer");
}

}  // namespace
}  // namespace deliverd::deadletter
