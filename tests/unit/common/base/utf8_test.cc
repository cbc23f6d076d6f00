#include "common/base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace cohort {
namespace {

// The boundaries of the forms are those of RFC 3629, section 4.
TEST(Utf8, CharactersAreThoseOfTheRfc) {
  for (const char* text :
       {"a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Utf8CharacterBytes(text), std::string(text).size()) << text;
    EXPECT_TRUE(IsUtf8(text + std::string("z")));
  }
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe0\xa0",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(Utf8CharacterBytes(text), 0u) << text;
    EXPECT_FALSE(IsUtf8(std::string("a") + text));
  }
  EXPECT_TRUE(IsUtf8(""));
}

}  // namespace
}  // namespace cohort
