// For tests that need files of several users.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

/// Leaves the test out, and says so, where nobody can make files of other users.
#define ONLY_AS_ROOT() \
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of other users"
