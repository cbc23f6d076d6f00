#pragma once

// The ranks of one way of all-reduce that `cohort_bench collective` compares: processes that answer
// what peers/rank_link.h asks.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "tests/bench/bench.h"

namespace cohort::bench {

// Thread-compatible. The processes end with it.
class RankGroup {
 public:
  // One program for each rank, or one that starts them all; "BENCH" among the arguments becomes the
  // name of the bench's socket. Errors: UNAVAILABLE when not all have come within a minute.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Start(
      int ranks, const std::vector<std::vector<std::string>>& programs);

  // Takes memory for `bytes`, and checks one sum. Errors: INTERNAL when it is wrong.
  absl::Status Prepare(size_t bytes);
  // Microseconds of one all-reduce of the size last prepared: those of the slowest rank.
  absl::StatusOr<double> Measure(int times);

 private:
  RankGroup() = default;
  absl::StatusOr<double> Ask(size_t bytes, int times);

  std::vector<Peer> peers_;
  std::vector<UniqueFd> sockets_;  // by rank; closed before the peers are waited for
  size_t bytes_ = 0;
};

}  // namespace cohort::bench
