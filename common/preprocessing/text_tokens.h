#pragma once

// The tokens of a text by Keras's layer TextVectorization: the text is standardized and split into
// words, and runs of words are tokens too (n-grams). Functions of their arguments alone;
// thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

enum class Standardize { kNone, kLower, kStripPunctuation, kLowerAndStripPunctuation };
enum class SplitText { kNone, kWhitespace, kCharacter };

struct TextTokensOptions {
  Standardize standardize = Standardize::kLowerAndStripPunctuation;
  SplitText split = SplitText::kWhitespace;
  int64_t ngrams = 1;  // the longest run of words that is a token
};

// Return the enumerator of Keras's name, "" among them for the default. Errors: INVALID_ARGUMENT
// naming what there is.
absl::StatusOr<Standardize> StandardizeFromName(absl::string_view name);
absl::StatusOr<SplitText> SplitTextFromName(absl::string_view name);

// Returns the tokens in the order of the text, single words first, then runs of two, and so on, as
// tf.strings.ngrams gives them, with a blank between words. Letters are those of ASCII, as in
// TensorFlow without an encoding. Split into characters, each byte that is no UTF-8 is U+FFFD.
std::vector<std::string> TextTokens(absl::string_view text, const TextTokensOptions& options);

}  // namespace cohort
