#include "common/preprocessing/vocabulary.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/preprocessing/hashing.h"

namespace cohort {

namespace {

// The tokens that Keras shows for unknown ones, texts and integers.
constexpr absl::string_view kUnknown = "[UNK]";
constexpr absl::string_view kUnknownInteger = "-1";

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, VocabularyOptions options)
    : tokens_(std::move(tokens)),
      options_(std::move(options)),
      first_((options_.mask ? 1 : 0) + options_.oov_indices) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    by_token_.emplace(tokens_[i], first_ + static_cast<int64_t>(i));
  }
}

absl::StatusOr<Vocabulary> Vocabulary::Make(std::vector<std::string> tokens,
                                            VocabularyOptions options) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& token : tokens) {
    if (token == options.mask) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabulary has the mask '", Excerpt(token), "' among its tokens"));
    }
    if (!seen.insert(token).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabulary has the token '", Excerpt(token), "' twice"));
    }
  }
  return Vocabulary(std::move(tokens), std::move(options));
}

absl::StatusOr<int64_t> Vocabulary::IndexOf(absl::string_view token) const {
  if (options_.mask && token == *options_.mask) return 0;
  if (const auto found = by_token_.find(token); found != by_token_.end()) return found->second;
  if (options_.oov_indices == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Excerpt(token),
                     "' is not in the vocabulary, and no index is for tokens "
                     "that are not: give num_oov_indices at least 1"));
  }
  const int64_t begin = options_.mask ? 1 : 0;
  if (options_.oov_indices == 1) return begin;
  const auto bins = static_cast<uint64_t>(options_.oov_indices);
  return begin + static_cast<int64_t>(Fingerprint64(token) % bins);
}

absl::StatusOr<int64_t> Vocabulary::IndexOf(int64_t token) const {
  const std::string text = absl::StrCat(token);
  const bool is_known = (options_.mask && text == *options_.mask) || by_token_.contains(text);
  if (is_known || options_.oov_indices <= 1 || !options_.integers) return IndexOf(text);
  const int64_t remainder = token % options_.oov_indices;
  const int64_t floor = remainder < 0 ? remainder + options_.oov_indices : remainder;
  return (options_.mask ? 1 : 0) + floor;
}

void TokenCounts::Add(absl::string_view token, int64_t count) { counts_[token] += count; }

std::vector<std::pair<absl::string_view, int64_t>> TokenCounts::counts() const {
  std::vector<std::pair<absl::string_view, int64_t>> sorted(counts_.begin(), counts_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> TokenCounts::Tokens(const TokenOrder& order) const {
  struct Ranked {
    int64_t count = 0;
    int64_t number = 0;  // 0 for a text
    std::string token;
  };
  std::vector<Ranked> ranked;
  for (const auto& [token, count] : counts_) {
    if (token == order.mask || token == (order.integers ? kUnknownInteger : kUnknown)) continue;
    Ranked& one = ranked.emplace_back(Ranked{count, 0, token});
    if (order.integers && !absl::SimpleAtoi(token, &one.number)) one.number = 0;
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.count, a.number, a.token) > std::tie(b.count, b.number, b.token);
  });
  if (order.count_max) ranked.resize(std::min(ranked.size(), *order.count_max));
  std::vector<std::string> tokens;
  tokens.reserve(ranked.size());
  for (Ranked& one : ranked) tokens.push_back(std::move(one.token));
  return tokens;
}

absl::StatusOr<std::vector<std::string>> ReadVocabulary(FileSystem& files,
                                                        const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  const auto error = [&](size_t line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": line ", line, " ", what));
  };
  std::vector<std::string> tokens;
  absl::flat_hash_set<std::string> seen;
  absl::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    absl::string_view token = rest.substr(0, end);
    rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end + 1);
    if (absl::EndsWith(token, "\r")) token.remove_suffix(1);
    const size_t line = tokens.size() + 1;
    if (token.empty()) return error(line, "is empty; each line has to be a token");
    if (line == 1 && token == kUnknown) {
      return error(line, "is [UNK], which would be a token as any other; remove the line");
    }
    if (!seen.insert(std::string(token)).second) {
      return error(line, absl::StrCat("has the token '", Excerpt(token), "' again"));
    }
    tokens.emplace_back(token);
  }
  return tokens;
}

}  // namespace cohort
