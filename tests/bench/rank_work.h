#pragma once

// The ways of all-reduce that cohort_bench itself runs as a rank: the project's own, and the
// limits that they are held to.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/cluster/transport_kind.h"
#include "tests/bench/peers/rank_link.h"
#include "worker/collective/collective_call.h"

namespace cohort::bench {

// Kinds of ranks with a number of KiB behind: of a message, and of a segment.
inline constexpr char kStreamKind[] = "grpc_stream";
inline constexpr char kBareRingKind[] = "bare_grpc_ring";

struct RankPlace {
  int rank = 0;
  int ranks = 0;
  std::string group;      // a name that no other group has
  std::string directory;  // where ranks leave their addresses for each other
};

// Leaves `text` under `key` for the other ranks, or waits for what one has left.
absl::Status LeaveText(const RankPlace& place, const std::string& key, const std::string& text);
absl::StatusOr<std::string> AwaitText(const RankPlace& place, const std::string& key);

// A ring over raw TCP sockets, with nothing between it and the kernel: what TCP can do here.
absl::StatusOr<std::unique_ptr<RankWork>> MakeRawRing(const RankPlace& place);

// The bytes that a ring all-reduce sends each rank's neighbour, as messages of a gRPC stream with a
// window, and nothing done with them: what gRPC can do here. Its AllReduce sums nothing.
absl::StatusOr<std::unique_ptr<RankWork>> MakeGrpcStream(const RankPlace& place,
                                                         size_t message_bytes);
// The same streams with the sums and copies of a ring all-reduce, and nothing else: what any
// all-reduce over gRPC can do here.
absl::StatusOr<std::unique_ptr<RankWork>> MakeGrpcRing(const RankPlace& place,
                                                       size_t segment_bytes);

// What the project does between processes of one host.
absl::StatusOr<std::unique_ptr<RankWork>> MakeSharedMemory(const RankPlace& place);
// What it does between hosts: over plain TCP, or over gRPC alone. Hierarchical takes each two ranks
// for a host's.
inline constexpr int kRanksOfHost = 2;
absl::StatusOr<std::unique_ptr<RankWork>> MakeLanes(const RankPlace& place,
                                                    CollectiveAlgorithm algorithm,
                                                    TransportKind transport);

}  // namespace cohort::bench
