#include "deadletter/topic_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace deliverd::deadletter {
namespace {

TEST(TopicPattern, StarIsAnyTextAndQuestionMarkOneCharacter) {
    EXPECT_TRUE(matches_pattern("orders.dlq.v1", "*.dlq.v1"));
    EXPECT_TRUE(matches_pattern(".dlq.v1", "*.dlq.v1"));
    EXPECT_FALSE(matches_pattern("orders.dlq.v12", "*.dlq.v1"));
    EXPECT_FALSE(matches_pattern("orders.dlqxv1", "*.dlq.v1")) << "a dot is a dot";
    EXPECT_TRUE(matches_pattern("a.b.c", "a*c"));
    EXPECT_TRUE(matches_pattern("aXbXc", "a*X*c"));
    EXPECT_FALSE(matches_pattern("aXbX", "a*X*c"));
    EXPECT_TRUE(matches_pattern("orders-dlt", "orders?dlt"));
    EXPECT_FALSE(matches_pattern("ordersdlt", "orders?dlt"));
    EXPECT_TRUE(matches_pattern("", "*"));
    EXPECT_TRUE(matches_pattern("anything", "**"));
    EXPECT_FALSE(matches_pattern("", "?"));
    EXPECT_TRUE(matches_pattern("", ""));
    EXPECT_FALSE(matches_pattern("a", ""));
}

TEST(TopicPattern, ManyStarsCostNoMoreThanTheyShould) {
    std::string pattern;
    for (int i = 0; i < 40; ++i) pattern += "a*";
    EXPECT_FALSE(matches_pattern(std::string(249, 'a') + "c", pattern + "b"));
}

TEST(TopicName, WhatKafkaAllows) {
    EXPECT_TRUE(is_topic_name("orders.v1_A-9"));
    EXPECT_TRUE(is_topic_name(std::string(249, 'x')));
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("a b"), std::string("\"orders\""),
          std::string("orders\0", 7), std::string("\xc3\xa9"), std::string(250, 'x')}) {
        EXPECT_FALSE(is_topic_name(name)) << name;
    }
}

TEST(DeadLetterTopic, ByTheSuffixAndByTheConfiguredPattern) {
    EXPECT_TRUE(is_dead_letter_topic("orders.dlq.v1"));
    EXPECT_FALSE(is_dead_letter_topic("orders.v1"));
    EXPECT_FALSE(is_dead_letter_topic("orders-dlt")) << "a habit is no proof";
    EXPECT_TRUE(is_dead_letter_topic("orders-dlt", "*-dlt"));
    EXPECT_TRUE(is_dead_letter_topic("orders.dlq.v1", "*-dlt")) << "the suffix counts whatever is configured";
}

}  // namespace
}  // namespace deliverd::deadletter
