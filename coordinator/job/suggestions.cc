#include "coordinator/job/suggestions.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cohort {
namespace {

// A longer name is compared by its beginning, so that a damaged file cannot make the table large.
constexpr size_t kNameBytesMax = 64;

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  a = a.substr(0, kNameBytesMax);
  b = b.substr(0, kNameBytesMax);
  const size_t width = b.size() + 1;
  std::vector<int> table((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> int& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string NearestName(absl::string_view name, absl::Span<const std::string> known) {
  std::string nearest;
  int best = 0;
  for (const std::string& candidate : known) {
    const int distance =
        EditDistance(absl::AsciiStrToLower(name), absl::AsciiStrToLower(candidate));
    if (nearest.empty() || distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string SuggestKey(absl::string_view name, absl::Span<const std::string> known) {
  if (known.empty()) return "; no key is known here";
  return absl::StrCat("; the nearest known key is '", NearestName(name, known),
                      "' (known: ", absl::StrJoin(known, ", "), ")");
}

}  // namespace cohort
