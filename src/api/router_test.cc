#include "api/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::api {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Router router_of(const std::vector<std::string>& paths) {
    std::vector<Route> routes;
    for (const auto& path : paths) routes.push_back({"GET", path});
    return Router(std::move(routes));
}

std::string found_path(const Router& router, std::string_view path) {
    const auto match = router.find("GET", path);
    return match.route == nullptr ? "" : match.route->path;
}

TEST(RouterTest, ALiteralComesBeforeAParameterInAnyOrderOfTheRoutes) {
    EXPECT_EQ(found_path(router_of({"/{x}", "/a"}), "/a"), "/a");
    EXPECT_EQ(found_path(router_of({"/a", "/{x}"}), "/a"), "/a");
    EXPECT_EQ(found_path(router_of({"/{x}/a", "/{y}/{z}"}), "/1/a"), "/{x}/a");
    EXPECT_EQ(found_path(router_of({"/{y}/{z}", "/{x}/a"}), "/1/a"), "/{x}/a");
}

TEST(RouterTest, AMethodThatTwoRoutesTakeIsAllowedOnce) {
    const auto match = router_of({"/{x}", "/a"}).find("PUT", "/a");
    EXPECT_EQ(match.route, nullptr);
    EXPECT_THAT(match.allowed, ElementsAre("GET", "HEAD"));
}

TEST(RouterTest, TheFirstSegmentMayBeAParameter) {
    EXPECT_THAT(router_of({"/{x}"}).find("GET", "/one").path_values, ElementsAre("one"));
}

TEST(RouterTest, APathBeginsWithASlash) {
    for (const auto* path : {"", "a", "*", "a/", "a/a"}) {
        EXPECT_THAT(router_of({"/a", "/", "/{x}"}).find("GET", path).allowed, IsEmpty()) << path;
    }
}

}  // namespace
}  // namespace deliverd::api
