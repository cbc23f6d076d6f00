#include "ps_server/close_names.h"

#include <algorithm>
#include <utility>

namespace cohort {

namespace {

// Levenshtein's distance, one row of the table at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> CloseNames(absl::string_view wanted,
                                    const std::vector<std::string>& candidates, size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    ranked.emplace_back(EditDistance(wanted, candidate), candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> close;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) close.push_back(ranked[i].second);
  return close;
}

}  // namespace cohort
