// The guarantees of store/imports.h, for every store. Included by one test file of each, which instantiates
// ImportsConformance.
#pragma once

#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <string>

#include "store/conformance/test_store.h"
#include "store/imports.h"

namespace deliverd::store::conformance {

class ImportsConformance : public ::testing::TestWithParam<StoreKind> {
protected:
    static constexpr std::string_view kFirst = "0a0b0c0d-0000-8000-a000-000000000001";
    static constexpr std::string_view kSecond = "0a0b0c0d-0000-8000-a000-000000000002";

    void SetUp() override {
        store_ = GetParam().make();
        imports_ = store_->database().imports();
    }
    static ImportedEvent event(std::string_view key, std::string_view payload = "{}") {
        return {key, "order-1", "Webhook", payload, R"({"endpoint": "http://e/"})"};
    }
    std::int64_t store(std::span<const ImportedEvent> events) {
        return must(imports_->store("file", "cli:ann", events));
    }
    std::string events() { return store_->value("select count(*) from outbox"); }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<Imports> imports_;
};

TEST_P(ImportsConformance, EachIsStoredOnceUntilItsOriginIsForgotten) {
    const std::array both = {event(kFirst), event(kSecond)};
    EXPECT_EQ(store(std::span(both).first(1)), 1);
    EXPECT_EQ(store(both), 1);
    EXPECT_EQ(store(both), 0);
    EXPECT_EQ(events(), "2");
    EXPECT_EQ(store_->value("select count(*) from outbox_audit where reason = 'event_imported' and actor = 'cli:ann'"
                            " and detail = 'file' and outbox_id in (select id from outbox)"),
              "2");
    EXPECT_EQ(store_->value("select event_id from outbox order by id limit 1"), kFirst);
    must(imports_->forget("another"));
    EXPECT_EQ(store(both), 0);
    must(imports_->forget("file"));
    EXPECT_EQ(store(both), 2);
}

TEST_P(ImportsConformance, OneThatCannotBeHeldRefusesAll) {
    const std::array both = {event(kFirst), event(kSecond, "no JSON")};
    const auto refused = imports_->store("file", "cli:ann", both);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().error_class, ErrorClass::permanent) << refused.error().message;
    EXPECT_EQ(events(), "0");
    EXPECT_EQ(store(std::span(both).first(1)), 1) << "nor is its key remembered";
}

}  // namespace deliverd::store::conformance
