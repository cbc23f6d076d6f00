#pragma once

// The other process of `cohort_bench transport`: a raw socket of each kind, a plain gRPC server
// that answers nothing with nothing, and a server of each of the project's transports that answers
// as a ps does.

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "tests/bench/bench.h"

namespace cohort::bench {

inline constexpr size_t kSmallest = size_t{4} << 10;
inline constexpr int kSizes = 8;  // 4 KiB, 16 KiB, ... 64 MiB
inline constexpr size_t kLargest = kSmallest << (2 * (kSizes - 1));
inline constexpr const char* kKinds[] = {"tcp", "grpc", "unix", "shm"};

inline size_t BytesOfSize(int size) { return kSmallest << (2 * size); }
Tensor Filled(size_t bytes);

// Where the peer listens: "raw-tcp", "raw-unix" and the kinds.
using PeerAddresses = std::map<std::string, std::string>;
absl::StatusOr<PeerAddresses> ReadAddresses(Peer& peer);

// Empty calls, one at a time, to a server of gRPC's own that does nothing. Thread-compatible.
class EmptyCalls {
 public:
  static absl::StatusOr<EmptyCalls> Start();
  // The median of so many.
  absl::StatusOr<double> Microseconds(int count) const;

 private:
  EmptyCalls(Peer server, std::string address)
      : server_(std::move(server)), address_(std::move(address)) {}
  Peer server_;
  std::string address_;
};

}  // namespace cohort::bench
