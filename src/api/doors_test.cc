#include "api/doors.h"

#include <gtest/gtest.h>

namespace deliverd::api {
namespace {

http::Request with(http::Headers headers) {
    return {"POST", "/", "", std::move(headers), "", "127.0.0.1"};
}

TEST(Doors, LoopbackAndAllowedNamesAreOurs) {
    const DoorOptions doors{true, true, {"deliverd.internal", "other.internal:8443", "[fd00::1]"}};
    for (const auto* host : {"127.0.0.1", "127.1.2.3:8080", "localhost", "LocalHost:1", "[::1]", "[::1]:8080",
                             "deliverd.internal", "Deliverd.Internal:99", "other.internal:8443", "[FD00::1]:5"}) {
        EXPECT_TRUE(is_own_host(host, doors)) << host;
    }
    for (const auto* host : {"",
                             ":",
                             ":80",
                             "evil.example",
                             "127.0.0.1.evil.example",
                             "localhost.evil.example",
                             "localhost:",
                             "localhost:x",
                             "localhost:123456",
                             "::1",
                             "::1:80",
                             "[::1",
                             "[::1]x",
                             "[]",
                             "[::2]",
                             "0.0.0.0",
                             "2130706433",
                             "0x7f.1",
                             "localhost@evil.example",
                             "localhost/",
                             "localhost ",
                             "other.internal",
                             "other.internal:8444",
                             "x.deliverd.internal",
                             "deliverd.internal."}) {
        EXPECT_FALSE(is_own_host(host, doors)) << host;
    }
    EXPECT_FALSE(is_own_host("evil.example", {true, true, {"not a name"}}));
}

TEST(Doors, AHostsNameHasLettersDigitsAndThreeSigns) {
    for (const auto* name : {"a", "z", "A", "Z", "0", "9", "a.b-c_d", "h:0", "h:99999", "[::1]:9"}) {
        EXPECT_TRUE(is_host_name(name)) << name;
    }
    for (const auto* name : {"a`", "a{", "a@", "a[", "a/", "a,", "a b", "h:/1", "h:1:", "h:a", "[::1]:", "[::1]:x",
                             "[::1]x80", "[::1", "", ":80"}) {
        EXPECT_FALSE(is_host_name(name)) << name;
    }
}

TEST(Doors, APageOfAnotherOriginIsForeign) {
    const DoorOptions doors{true, true, {"deliverd.internal", "other.internal:8443"}};
    const auto foreign = [&](std::string origin, std::string host = "127.0.0.1:8080") {
        return is_cross_origin(with({{"host", std::move(host)}, {"origin", std::move(origin)}}), doors);
    };
    EXPECT_FALSE(is_cross_origin(with({}), doors)) << "no browser, or nothing to fear from it";
    EXPECT_FALSE(foreign("http://127.0.0.1:8080"));
    EXPECT_FALSE(foreign("https://127.0.0.1:8080")) << "a proxy speaks TLS";
    EXPECT_FALSE(foreign("http://localhost", "localhost"));
    EXPECT_FALSE(foreign("https://localhost", "localhost:443"));
    EXPECT_FALSE(foreign("https://deliverd.internal"));
    EXPECT_FALSE(foreign("https://other.internal:8443"));
    for (const auto* origin : {"http://127.0.0.1", "http://127.0.0.1:3000", "http://localhost:8080", "null", "", "x",
                               "http://", "file://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://evil.example",
                               "http://127.0.0.1:8080@evil.example", "http://deliverd.internal:3000",
                               "https://other.internal", "http://127.0.0.1:8080.evil.example"}) {
        EXPECT_TRUE(foreign(origin)) << origin;
    }
    EXPECT_TRUE(foreign("http://localhost", "localhost:443"));
    EXPECT_TRUE(foreign("http://localhost", "local host"));
    EXPECT_TRUE(foreign("http", "tp"));
    EXPECT_TRUE(is_cross_origin(with({{"Host", "a"}, {"Origin", "http://a"}, {"Origin", "http://b"}}), doors));
    EXPECT_TRUE(is_cross_origin(with({{"Sec-Fetch-Site", "Cross-Site"}}), doors));
    for (const auto* site : {"same-origin", "same-site", "none"}) {
        EXPECT_FALSE(is_cross_origin(with({{"Sec-Fetch-Site", site}}), doors)) << site;
    }
}

TEST(Doors, APlainPageIsForeignToAServerWithTls) {
    const DoorOptions doors{true, true, {"deliverd.internal"}, true};
    const auto foreign = [&](std::string origin, std::string host) {
        return is_cross_origin(with({{"host", std::move(host)}, {"origin", std::move(origin)}}), doors);
    };
    EXPECT_FALSE(foreign("https://localhost:8443", "localhost:8443"));
    EXPECT_FALSE(foreign("https://deliverd.internal", "localhost:8443"));
    EXPECT_TRUE(foreign("http://localhost", "localhost"));
    EXPECT_TRUE(foreign("http://localhost:8443", "localhost:8443"));
    EXPECT_TRUE(foreign("http://deliverd.internal", "localhost:8443"));
}

TEST(Doors, ABodyIsCalledJson) {
    const auto other = [](http::Headers headers) { return has_other_body(with(std::move(headers))); };
    EXPECT_FALSE(other({}));
    EXPECT_FALSE(other({{"Content-Length", "0"}}));
    EXPECT_FALSE(other({{"Content-Length", "00"}}));
    EXPECT_FALSE(other({{"Content-Type", "text/plain"}}));
    for (const auto* type :
         {"application/json", "Application/JSON", "application/json;charset=utf-8", " application/json ; x",
          "\tapplication/json\t", "application/x+json", "application/vnd.a+json"}) {
        EXPECT_FALSE(other({{"content-length", "7"}, {"content-type", type}})) << type;
    }
    for (const auto* type :
         {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "text/json",
          "text/plain; application/json", "application/+json", "multipart/form-data;+json", "multipart/mixed+json"}) {
        EXPECT_TRUE(other({{"content-length", "10"}, {"content-type", type}})) << type;
        EXPECT_TRUE(other({{"transfer-encoding", "chunked"}, {"content-type", type}})) << type;
    }
}

}  // namespace
}  // namespace deliverd::api
