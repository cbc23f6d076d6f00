#include "common/base/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace cohort {

namespace {

// Levenshtein's distance by rows: row[j] is the distance of the prefix of a so far to b's first j.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kNameMax =
      200;  // the work is the product of the lengths, and names come from files
  if (name.size() > kNameMax) return "";
  std::string nearest;
  size_t best = (name.size() + 1) / 2 + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kNameMax) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace cohort
