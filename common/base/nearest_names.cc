#include "common/base/nearest_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"

namespace cohort {

namespace {
constexpr size_t kNameBytesMax = 64;
}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  a = a.substr(0, kNameBytesMax);
  b = b.substr(0, kNameBytesMax);
  const size_t width = b.size() + 1;
  std::vector<int> table((a.size() + 1) * width);
  // at(i, j) is the distance between the first i characters of `a` and the first j characters of
  // `b`.
  const auto at = [&](size_t i, size_t j) -> int& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      // If the last two characters of one prefix are those of the other prefix in the opposite
      // order, swapping the two characters counts as one change.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::vector<std::string> NearestNames(absl::string_view name,
                                      absl::Span<const std::string> candidates, size_t count) {
  const std::string wanted = absl::AsciiStrToLower(name);
  std::vector<std::pair<int, const std::string*>> ranked;
  for (const std::string& candidate : candidates) {
    ranked.emplace_back(EditDistance(wanted, absl::AsciiStrToLower(candidate)), &candidate);
  }
  // The sort is stable, so candidates at equal distance keep their order.
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(count, ranked.size()));
  std::vector<std::string> nearest;
  nearest.reserve(ranked.size());
  for (const auto& [distance, candidate] : ranked) nearest.push_back(*candidate);
  return nearest;
}

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  std::vector<std::string> nearest = NearestNames(name, candidates, 1);
  if (nearest.empty()) return "";
  const int distance =
      EditDistance(absl::AsciiStrToLower(name), absl::AsciiStrToLower(nearest.front()));
  const auto size = static_cast<int>(std::min(name.size(), kNameBytesMax));
  return distance <= (size + 1) / 2 ? nearest.front() : "";
}

}  // namespace cohort
