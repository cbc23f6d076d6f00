// Values that TensorFlow 2.21 and Keras 3.15 gave (the rows strings/* of their golden values).

#include "common/preprocessing/hashing.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr uint64_t kBits62 = uint64_t{1} << 62;

const std::vector<std::string>& Texts() {
  static const auto* const kTexts =
      new std::vector<std::string>{"", "a", "b", "A", "abc", "hello world"};
  return *kTexts;
}
constexpr int64_t kInts[] = {0, 1, -1, 12, int64_t{1} << 40};

std::vector<int64_t> BinsOfTexts(const HashBins& bins) {
  std::vector<int64_t> all;
  for (const std::string& text : Texts()) all.push_back(bins.BinOf(text));
  return all;
}
std::vector<int64_t> BinsOfInts(const HashBins& bins) {
  std::vector<int64_t> all;
  for (const int64_t value : kInts) all.push_back(bins.BinOf(value));
  return all;
}

TEST(Fingerprint64, IsTensorFlows) {
  EXPECT_EQ(Fingerprint64("") % kBits62, 1936946117179621455u);
  EXPECT_EQ(Fingerprint64("a") % kBits62, 3694432073954588131u);
  EXPECT_EQ(Fingerprint64("hello world") % kBits62, 1769834696496558107u);
  EXPECT_EQ(Fingerprint64(std::string(16, 'x')) % kBits62, 3320895591121647644u);
  EXPECT_EQ(Fingerprint64(std::string(17, 'x')) % kBits62, 2082709914559524773u);
}

TEST(SipHash, IsTensorFlows) {
  EXPECT_EQ(SipHash({133, 133}, "") % kBits62, 1913067026855311907u);
  EXPECT_EQ(SipHash({133, 133}, "abc") % kBits62, 1149866096280602919u);
  EXPECT_EQ(SipHash({133, 133}, std::string(16, 'x')) % kBits62, 611909376339538235u);
  EXPECT_EQ(SipHash({133, 133}, std::string(17, 'x')) % kBits62, 1327035610533367031u);
  EXPECT_EQ(SipHash({137, 42}, "hello world") % kBits62, 2316710820925445130u);
}

// The first vector of the paper's appendix: the key 00 01 ... 0f, the message 00 01 ... 0e.
TEST(SipHash, IsThatOfThePaper) {
  std::string message;
  for (char byte = 0; byte < 15; ++byte) message.push_back(byte);
  EXPECT_EQ(SipHash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, message), 0xa129ca6149be45e5u);
}

TEST(HashBins, AreThoseOfKeras) {
  EXPECT_THAT(BinsOfTexts(HashBins(1000, {}, {})), ElementsAre(263, 939, 822, 564, 385, 11));
  EXPECT_THAT(BinsOfInts(HashBins(1000, {}, {})), ElementsAre(735, 849, 430, 888, 378));
  EXPECT_THAT(BinsOfTexts(HashBins(1000, SipKey{133, 133}, {})),
              ElementsAre(907, 997, 824, 819, 823, 497));
  EXPECT_THAT(BinsOfTexts(HashBins(1000, SipKey{137, 42}, {})),
              ElementsAre(723, 714, 643, 714, 867, 130));
  EXPECT_THAT(BinsOfInts(HashBins(1000, SipKey{133, 133}, {})),
              ElementsAre(385, 310, 766, 609, 243));
  EXPECT_THAT(BinsOfTexts(HashBins(3, {}, {})), ElementsAre(2, 0, 1, 1, 2, 0));
  EXPECT_THAT(BinsOfTexts(HashBins(1, {}, {})), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(HashBins, TheMaskHasBinZero) {
  const HashBins texts(3, {}, "");
  EXPECT_EQ(texts.BinOf(""), 0);
  EXPECT_EQ(texts.BinOf("a"), 2);
  EXPECT_EQ(texts.BinOf("b"), 1);
  const HashBins ints(4, {}, "0");
  EXPECT_EQ(ints.BinOf(int64_t{0}), 0);
  EXPECT_EQ(ints.BinOf(int64_t{1}), 1);
  EXPECT_EQ(ints.BinOf(int64_t{2}), 2);
  EXPECT_EQ(HashBins(1, {}, "").BinOf("a"), 0);
}

template <typename... Values>
CrossHash CrossOf(const Values&... values) {
  CrossHash hash;
  (hash.Add(values), ...);
  return hash;
}

TEST(CrossHash, IsThatOfKeras) {
  const std::string a = "A", b = "B";
  constexpr int64_t k101 = 101, k102 = 102;
  std::vector<int64_t> bins;
  for (const CrossHash& hash :
       {CrossOf(a, k101), CrossOf(b, k101), CrossOf(a, k101), CrossOf(b, k102), CrossOf(a, k102)}) {
    bins.push_back(hash.BinOf(1000));
  }
  EXPECT_THAT(bins, ElementsAre(891, 754, 891, 576, 523));
  EXPECT_EQ(CrossOf(int64_t{1}, int64_t{3}).BinOf(1000), 651);
  EXPECT_EQ(CrossOf(int64_t{-1}, int64_t{7}).BinOf(1000), 481);
  using Text = absl::string_view;
  EXPECT_EQ(CrossOf(Text("a"), Text("x"), Text("")).BinOf(1000), 463);
  EXPECT_EQ(CrossOf(Text("b"), Text("x"), Text("q")).BinOf(1000), 356);
}

}  // namespace
}  // namespace cohort
