#include "worker/replicas/gradient_packs.h"

#include <numeric>

namespace cohort {

std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs) {
  std::vector<int64_t> ends;
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  for (int64_t i = 1; i <= num_packs; ++i) {
    // all * i / num_packs, which may be beyond 64 bits before the division
    ends.push_back(all / num_packs * i + all % num_packs * i / num_packs);
  }
  if (num_packs == 0) {
    for (const int64_t count : elements) ends.push_back((ends.empty() ? 0 : ends.back()) + count);
  }
  std::vector<GradientPack> packs;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end > begin) packs.push_back({begin, end - begin});
    begin = end;
  }
  return packs;
}

}  // namespace cohort
