#include "common/base/excerpt.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

TEST(Excerpt, IsTheTextWhereThatIsShortAndPrintable) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt("layer one"), "layer one");
  EXPECT_EQ(Excerpt(std::string(64, 'a')), std::string(64, 'a'));
}

TEST(Excerpt, CutsWhatIsLonger) {
  EXPECT_EQ(Excerpt(std::string(65, 'a')), absl::StrCat(std::string(61, 'a'), "..."));
}

TEST(Excerpt, EscapesWhatIsNotPrintable) {
  EXPECT_EQ(Excerpt(absl::string_view("a\0\n\x7f\xff", 5)), "a\\x00\\n\\x7f\\xff");
}

TEST(Excerpt, OfAnyBytesIsShortAndPrintable) {
  SequenceRng rng(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(rng.Below(100), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.Below(rng.Below(2) == 0 ? 128 : 256));
    const std::string excerpt = Excerpt(bytes);
    EXPECT_LE(excerpt.size(), kExcerptBytesMax);
    EXPECT_TRUE(std::all_of(excerpt.begin(), excerpt.end(),
                            [](unsigned char byte) { return absl::ascii_isprint(byte); }));
  }
}

}  // namespace
}  // namespace cohort
