#pragma once

// The index of tokens by Keras's layers StringLookup and IntegerLookup. The indices of the mask (if
// there is one), of the tokens that are not in the vocabulary (out of vocabulary), and of the
// vocabulary follow each other, from 0 on.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

struct VocabularyOptions {
  std::optional<std::string> mask = {};  // the token of index 0; absent: no token is masked
  int64_t oov_indices = 1;               // the number of indices for unknown tokens
  // True: tokens are decimal integers. An unknown one gets the index of its floor modulo
  // `oov_indices`; an unknown string gets that of its Fingerprint64.
  bool integers = false;
};

// Thread-safe.
class Vocabulary {
 public:
  // `tokens` are those behind the mask and the indices of unknown tokens. Errors: INVALID_ARGUMENT
  // naming a token that is given twice, or that is the mask.
  static absl::StatusOr<Vocabulary> Make(std::vector<std::string> tokens,
                                         VocabularyOptions options);

  // Returns the number of indices.
  int64_t size() const { return first_ + static_cast<int64_t>(tokens_.size()); }
  // Returns the index of the first token of the vocabulary.
  int64_t first() const { return first_; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  // Returns the index of a token. Errors: INVALID_ARGUMENT naming a token that is unknown, where
  // there is no index for such tokens.
  absl::StatusOr<int64_t> IndexOf(absl::string_view token) const;
  absl::StatusOr<int64_t> IndexOf(int64_t token) const;

 private:
  Vocabulary(std::vector<std::string> tokens, VocabularyOptions options);

  std::vector<std::string> tokens_;
  VocabularyOptions options_;
  int64_t first_ = 0;
  absl::flat_hash_map<std::string, int64_t> by_token_;
};

// How a vocabulary is made of counted tokens.
struct TokenOrder {
  std::optional<std::string> mask = {};
  std::optional<size_t> count_max = {};  // absent: there is no bound
  bool integers = false;                 // true: tokens are decimal integers
};

// Counts the tokens of data, from which a vocabulary is adapted. Counts of parts of the data are
// joined in any order. Thread-compatible.
class TokenCounts {
 public:
  void Add(absl::string_view token, int64_t count = 1);

  // Returns the tokens by falling count; those of equal counts by falling bytes, or by falling
  // number if they are integers, as in Keras. The mask is left out, and so is Keras's token for
  // unknown ones, "[UNK]" or -1.
  std::vector<std::string> Tokens(const TokenOrder& order) const;

  // Returns the number of distinct tokens.
  size_t size() const { return counts_.size(); }
  // Returns the counts, by rising bytes of the tokens.
  std::vector<std::pair<absl::string_view, int64_t>> counts() const;

 private:
  absl::flat_hash_map<std::string, int64_t> counts_;
};

// Reads a vocabulary from a file of one token a line, each of which ends at LF or CR LF. Errors:
// INVALID_ARGUMENT naming the file and the line for an empty one, for a token given twice, and for
// "[UNK]" in the first line, which would shift all indices by one; those of the file.
absl::StatusOr<std::vector<std::string>> ReadVocabulary(FileSystem& files, const std::string& path);

}  // namespace cohort
