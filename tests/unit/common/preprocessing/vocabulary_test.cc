// Indices that Keras 3.15 and Keras 2 gave (the rows strings/* and vocab/* of their golden values).

#include "common/preprocessing/vocabulary.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Vocabulary Make(std::vector<std::string> tokens, VocabularyOptions options = {}) {
  auto made = Vocabulary::Make(std::move(tokens), std::move(options));
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

template <typename Token>
std::vector<int64_t> Indices(const Vocabulary& vocabulary, const std::vector<Token>& tokens) {
  std::vector<int64_t> indices;
  for (const Token& token : tokens) {
    const auto index = vocabulary.IndexOf(token);
    EXPECT_TRUE(index.ok()) << index.status();
    indices.push_back(index.value_or(-1));
  }
  return indices;
}
std::vector<int64_t> Strings(const Vocabulary& vocabulary, const std::vector<std::string>& tokens) {
  return Indices(vocabulary, tokens);
}
std::vector<int64_t> Ints(const Vocabulary& vocabulary, const std::vector<int64_t>& tokens) {
  return Indices(vocabulary, tokens);
}

TEST(TokenCounts, AreRankedAsInKeras) {
  TokenCounts counts;
  for (const char* token : {"b", "a", "c", "b", "a", "b", "", "d", "C"}) counts.Add(token);
  EXPECT_THAT(counts.Tokens({}), ElementsAre("b", "a", "d", "c", "C", ""));
  EXPECT_THAT(counts.Tokens({.count_max = 3}), ElementsAre("b", "a", "d"));
  EXPECT_THAT(counts.Tokens({.mask = "", .count_max = 9}), ElementsAre("b", "a", "d", "c", "C"));
  TokenCounts ties;
  for (const char* token : {"\xc3\xa9", "z", "Z", "~", "\xe4\xb8\xad", "[UNK]"}) ties.Add(token);
  EXPECT_THAT(ties.Tokens({}), ElementsAre("\xe4\xb8\xad", "\xc3\xa9", "~", "z", "Z"));
  counts.Add("Z", 5);
  EXPECT_THAT(counts.Tokens({.count_max = 2}), ElementsAre("Z", "b"));
  // Integers of equal counts are ranked by their numbers, and -1 stands for unknown ones.
  TokenCounts integers;
  for (const char* token : {"10", "10", "10", "5", "5", "7", "0", "-1", "12"}) integers.Add(token);
  EXPECT_THAT(integers.Tokens({.integers = true}), ElementsAre("10", "5", "12", "7", "0"));
}

TEST(Vocabulary, IndicesAreThoseOfStringLookup) {
  const Vocabulary adapted = Make({"b", "a", "d", "c", "C", ""});
  EXPECT_THAT(Strings(adapted, {"b", "a", "zz", ""}), ElementsAre(1, 2, 0, 6));
  EXPECT_EQ(adapted.size(), 7);
  const Vocabulary masked = Make({"a", "b", "c"}, {.mask = ""});
  EXPECT_THAT(Strings(masked, {"", "a", "q"}), ElementsAre(0, 2, 1));
  const Vocabulary three = Make({"a", "b"}, {.mask = {}, .oov_indices = 3});
  EXPECT_THAT(Strings(three, {"x", "y", "z", "w", "a", "b"}), ElementsAre(2, 2, 1, 2, 3, 4));
  const Vocabulary three_masked = Make({"a"}, {.mask = "", .oov_indices = 3});
  EXPECT_THAT(Strings(three_masked, {"x", "y", "z", "w", "a", ""}), ElementsAre(3, 3, 2, 3, 4, 0));
  const Vocabulary closed = Make({"a"}, {.mask = {}, .oov_indices = 0});
  EXPECT_EQ(*closed.IndexOf("a"), 0);
  EXPECT_THAT(closed.IndexOf("x").status().message(), HasSubstr("'x' is not in the vocabulary"));
}

TEST(Vocabulary, IndicesAreThoseOfIntegerLookup) {
  const Vocabulary adapted = Make({"10", "5", "7", "0"}, {.integers = true});
  EXPECT_THAT(Ints(adapted, {10, 5, 7, -1, 0, 99}), ElementsAre(1, 2, 3, 0, 4, 0));
  const Vocabulary masked =
      Make({"12", "36", "1138", "42"}, {.mask = "0", .oov_indices = 2, .integers = true});
  EXPECT_THAT(Ints(masked, {0, 12, 1000, 1001, 42, 37}), ElementsAre(0, 3, 1, 2, 6, 2));
  const Vocabulary three = Make({}, {.mask = {}, .oov_indices = 3, .integers = true});
  EXPECT_THAT(Ints(three, {3, 4, 5, 6, 7, 8, -1, -2}), ElementsAre(0, 1, 2, 0, 1, 2, 2, 1));
}

TEST(Vocabulary, TokensAreGivenOnce) {
  EXPECT_THAT(Vocabulary::Make({"a", "b", "a"}, {}).status().message(),
              HasSubstr("has the token 'a' twice"));
  EXPECT_THAT(Vocabulary::Make({"a"}, {.mask = "a"}).status().message(), HasSubstr("the mask 'a'"));
}

absl::StatusOr<std::vector<std::string>> Read(const std::string& content) {
  MemoryFileSystem files;
  auto file = files.Create("/v.txt");
  EXPECT_TRUE((*file)->Append(content).ok() && (*file)->Sync().ok() && (*file)->Close().ok());
  return ReadVocabulary(files, "/v.txt");
}

TEST(ReadVocabulary, ALineIsAToken) {
  EXPECT_THAT(*Read("a\r\n b \nc"), ElementsAre("a", " b ", "c"));
  EXPECT_THAT(*Read("a\n[UNK]\n"), ElementsAre("a", "[UNK]"));
  EXPECT_THAT(Read("a\n\nb\n").status().message(), HasSubstr("/v.txt: line 2 is empty"));
  EXPECT_THAT(Read("a\nb\na\n").status().message(), HasSubstr("line 3 has the token 'a' again"));
  EXPECT_THAT(Read("[UNK]\na\n").status().message(), HasSubstr("line 1 is [UNK]"));
}

}  // namespace
}  // namespace cohort
