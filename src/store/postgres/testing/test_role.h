// A role of a test's own. Only tests include this.
#pragma once

#include <unistd.h>

#include <string>

#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {

/// Can log in; dropped at the end with what it owns and was granted.
class TestRole {
public:
    TestRole(PostgresTestStore& store, const std::string& name)
        : store_(store), name_(name + "_" + std::to_string(::getpid())) {
        store_.execute("create role " + name_ + " login");
    }
    ~TestRole() { store_.execute("drop owned by " + name_ + " cascade; drop role " + name_); }
    TestRole(const TestRole&) = delete;
    TestRole& operator=(const TestRole&) = delete;

    void grant(const std::string& what) { store_.execute("grant " + what + " to " + name_); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] PlainConnection connect() const {
        return PlainConnection(store_.server().conninfo() + " user=" + name_);
    }

private:
    PostgresTestStore& store_;
    const std::string name_;
};

}  // namespace deliverd::store::postgres
