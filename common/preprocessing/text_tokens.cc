#include "common/preprocessing/text_tokens.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/excerpt.h"
#include "common/base/utf8.h"

namespace cohort {

namespace {

constexpr absl::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::string Standardized(absl::string_view text, Standardize way) {
  const bool lowers = way == Standardize::kLower || way == Standardize::kLowerAndStripPunctuation;
  const bool strips =
      way == Standardize::kStripPunctuation || way == Standardize::kLowerAndStripPunctuation;
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (strips && absl::ascii_ispunct(static_cast<unsigned char>(c))) continue;
    result.push_back(lowers ? absl::ascii_tolower(static_cast<unsigned char>(c)) : c);
  }
  return result;
}

std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    while (at < text.size() && !absl::ascii_isspace(static_cast<unsigned char>(text[at]))) ++at;
    if (at > begin) words.emplace_back(text.substr(begin, at - begin));
    if (at < text.size()) ++at;
  }
  return words;
}

std::vector<std::string> Characters(absl::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const size_t size = Utf8CharacterBytes(text);
    characters.emplace_back(size == 0 ? kReplacement : text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return characters;
}

}  // namespace

absl::StatusOr<Standardize> StandardizeFromName(absl::string_view name) {
  if (name == "none") return Standardize::kNone;
  if (name == "lower") return Standardize::kLower;
  if (name == "strip_punctuation") return Standardize::kStripPunctuation;
  if (name.empty() || name == "lower_and_strip_punctuation") {
    return Standardize::kLowerAndStripPunctuation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("standardize is '", Excerpt(name),
                   "'; it must be none, lower, strip_punctuation or lower_and_strip_punctuation"));
}

absl::StatusOr<SplitText> SplitTextFromName(absl::string_view name) {
  if (name == "none") return SplitText::kNone;
  if (name.empty() || name == "whitespace") return SplitText::kWhitespace;
  if (name == "character") return SplitText::kCharacter;
  return absl::InvalidArgumentError(
      absl::StrCat("split is '", Excerpt(name), "'; it must be none, whitespace or character"));
}

std::vector<std::string> TextTokens(absl::string_view text, const TextTokensOptions& options) {
  const std::string standardized = Standardized(text, options.standardize);
  std::vector<std::string> words;
  switch (options.split) {
    case SplitText::kNone:
      words = {standardized};
      break;
    case SplitText::kWhitespace:
      words = Words(standardized);
      break;
    case SplitText::kCharacter:
      words = Characters(standardized);
      break;
  }
  // All words stand before all pairs, as tf.strings.ngrams gives a list of widths.
  std::vector<std::string> tokens = words;
  for (int64_t width = 2; width <= options.ngrams; ++width) {
    const auto run = static_cast<size_t>(width);
    for (size_t begin = 0; begin + run <= words.size(); ++begin) {
      tokens.push_back(absl::StrJoin(absl::MakeConstSpan(words).subspan(begin, run), " "));
    }
  }
  return tokens;
}

}  // namespace cohort
