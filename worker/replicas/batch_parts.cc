#include "worker/replicas/batch_parts.h"

#include <algorithm>

namespace cohort {

std::vector<BatchPart> SplitBatch(int64_t examples, int64_t replicas) {
  std::vector<BatchPart> parts;
  int64_t begin = 0;
  for (int64_t replica = 0; replica < std::min(examples, replicas); ++replica) {
    // The first replicas get one example more each, until the division's remainder is used up.
    const int64_t count = examples / replicas + (replica < examples % replicas ? 1 : 0);
    parts.push_back({begin, count});
    begin += count;
  }
  return parts;
}

}  // namespace cohort
