#include "http/wire.h"

#include <gtest/gtest.h>

namespace deliverd::http {
namespace {

TEST(Target, ReadsTheFormsARequestLineMayHave) {
    struct Case {
        std::string_view target, path, query, authority = "";
    };
    for (const auto& c : {Case{"/", "/", ""}, Case{"/a/b?c=d?e", "/a/b", "c=d?e"}, Case{"/a?", "/a", ""},
                          Case{"http://host/a?b", "/a", "b", "host"}, Case{"HTTPS://host:1", "/", "", "host:1"},
                          Case{"http://host?q", "/", "q", "host"}, Case{"*", "*", ""}, Case{"//a", "//a", ""}}) {
        const auto target = parse_target(c.target);
        ASSERT_TRUE(target) << c.target;
        EXPECT_EQ(target->path, c.path) << c.target;
        EXPECT_EQ(target->query, c.query) << c.target;
        EXPECT_EQ(target->authority, c.authority) << c.target;
    }
}

TEST(Target, RefusesWhatIsNeitherPathNorHttpUrl) {
    for (const auto* target : {"", "a", "host:443", "ftp://host/a", "http:///a", "/a#b", "javascript:x"}) {
        EXPECT_FALSE(parse_target(target)) << target;
    }
}

TEST(Method, IsUpperCaseAndShort) {
    EXPECT_TRUE(is_sane_method("GET"));
    EXPECT_TRUE(is_sane_method("M-SEARCH"));
    EXPECT_FALSE(is_sane_method("get"));
    EXPECT_FALSE(is_sane_method(""));
    EXPECT_FALSE(is_sane_method(std::string(33, 'A')));
}

TEST(Request, FindsTheFirstHeaderWithoutCase) {
    const Request request{"GET", "/", "", {{"X-One", "1"}, {"x-one", "2"}}, "", ""};
    EXPECT_EQ(request.header("x-ONE"), "1");
    EXPECT_EQ(request.header("x-on"), "");
}

TEST(ResponseHead, HoldsWhatTheClientNeeds) {
    const WallTime now(std::chrono::seconds(784111777));  // the date of RFC 9110's own example
    const Response response{200, {{"X-A", "b"}}, "text/plain", "four"};
    EXPECT_EQ(response_head(response, {1, true, "OK"}, now),
              "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain\r\n"
              "Content-Length: 4\r\nX-A: b\r\n\r\n");
    EXPECT_NE(response_head(response, {1, false, "OK"}, now).find("Connection: close\r\n"), std::string::npos);
    EXPECT_NE(response_head(response, {0, true, "OK"}, now).find("Connection: keep-alive\r\n"), std::string::npos);
}

TEST(ResponseHead, HasNoLengthWhereThereIsNoBody) {
    const auto head = response_head(Response{204, {}, "", ""}, {1, true, "No Content"}, {});
    EXPECT_EQ(head.find("Content-Length"), std::string::npos);
}

TEST(ResponseHead, CannotBeSplitByAHeaderValue) {
    const Response response{200, {{"X-A", "b\r\nX-Evil: 1"}, {"Content-Length", "9"}}, "text/plain\nX-Evil: 2", ""};
    const auto head = response_head(response, {1, true, "OK"}, {});
    EXPECT_EQ(head.find("\nX-Evil"), std::string::npos);
    EXPECT_EQ(head.find("Content-Length: 9"), std::string::npos);
}

}  // namespace
}  // namespace deliverd::http
