#include "wal/lsn.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace deliverd::wal {
namespace {

TEST(Lsn, IsWrittenAsPostgresqlWritesIt) {
    EXPECT_EQ(lsn_text(0), "0/0");
    EXPECT_EQ(lsn_text(0x16B374D848), "16/B374D848");
    EXPECT_EQ(lsn_text(0xFFFFFFFF'00000001), "FFFFFFFF/1");
}

TEST(Lsn, IsReadInEitherCase) {
    EXPECT_EQ(parse_lsn("16/B374D848"), 0x16B374D848);
    EXPECT_EQ(parse_lsn("16/b374d848"), 0x16B374D848);
    EXPECT_EQ(parse_lsn("0/0"), 0);
    EXPECT_EQ(parse_lsn("00000001/00000002"), 0x100000002);
}

TEST(Lsn, RefusesWhatPostgresqlRefuses) {
    for (const char* text :
         {"", "/", "1/", "/1", "1", "1/2/3", "g/1", "1/-2", "+1/2", "0x1/2", " 1/2", "123456789/1", "1/123456789"}) {
        EXPECT_FALSE(parse_lsn(text)) << text;
    }
}

RC_GTEST_PROP(LsnProperty, SurvivesBeingWrittenAndRead, (Lsn lsn)) {
    RC_ASSERT(parse_lsn(lsn_text(lsn)) == lsn);
}

}  // namespace
}  // namespace deliverd::wal
