#pragma once

// The choice of a parameter server for every piece of a whole model, with the reasons. The
// partitioner says how variables are cut; the policy says on which parameter server each piece
// lies:
//
//   round_robin  in creation order, like TensorFlow: piece k on server k mod P
//   bytes        largest piece first, each to the server that holds the fewest bytes so far. Slots
//                count: a ps keeps them beside the variable.
//   measured     like `bytes`, but counts the bytes that the parameter servers of an earlier run
//                sent and received for the rows of a piece, so that a table with many requests
//                counts for more than a large table with few. Pieces without any request are
//                placed by their bytes. Without a measurement: bytes.
// The slices of a dynamic table stay where they are, one on every server. They count with their
// memory limit, if they have one, because nobody knows beforehand how many rows there will be.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/strategy/variable_pieces.h"
#include "proto/plan.pb.h"

namespace cohort {

enum class PlacementPolicy { kRoundRobin, kBytes, kMeasured };

// Returns the policy of this name. Errors: INVALID_ARGUMENT for a name that is not a policy's.
absl::StatusOr<PlacementPolicy> PlacementPolicyFromName(absl::string_view name);

// The bytes moved for a range of a variable's rows.
struct RowsLoad {
  RowRange rows;
  int64_t bytes = 0;
};
using MeasuredLoads = std::map<std::string, std::vector<RowsLoad>>;

// A piece of a variable in a plan, with its server.
struct PiecePlacement {
  std::string name;  // name of the piece, such as "dense/kernel/part_1"
  RowRange rows;
  bool dynamic = false;  // rows under keys: `rows` is a range of key buckets
  int64_t bytes = 0;     // bytes of the value and its slots
  int64_t load = 0;      // bytes moved for the piece in an earlier run; 0 without a measurement
  uint32_t ps = 0;
  std::string reason;
};

struct PlacementInput {
  std::vector<int> ps;  // task indices of the parameter servers, ascending
  PlacementPolicy policy = PlacementPolicy::kRoundRobin;
  MeasuredLoads loads;
};
// Gives every slice of `layouts` its home. Returns the pieces in the order of the slices.
std::vector<PiecePlacement> PlacePieces(const PlacementInput& input,
                                        absl::Span<proto::VariableLayout> layouts);

// Returns the homes of all slices, in their order.
std::vector<uint32_t> HomesOf(absl::Span<const proto::VariableLayout> layouts);
// Gives the slices these homes, if there is one home for each slice and every home is in `ps`;
// otherwise the slices keep their homes.
void PlaceAt(absl::Span<const uint32_t> homes, absl::Span<const int> ps,
             absl::Span<proto::VariableLayout> layouts);

// Returns the largest sum of `weight` on one server as a multiple of the mean over all servers; 1
// if all sums are 0.
double MaxOverMean(absl::Span<const PiecePlacement> pieces, absl::Span<const int> ps,
                   int64_t PiecePlacement::*weight);

// Deals pieces out to parameter servers one after another, without knowing which pieces follow.
// Round robin, TensorFlow's order: the k-th piece goes to server k mod P of the P servers in index
// order; slices and scalars count alike. By bytes: the piece goes to the server that has been given
// the fewest bytes so far, and to the first such server if several have equally few. A piece that
// is colocated with another variable does not advance the round robin, but its bytes count. Servers
// are named by task index, so the indices of a cluster may have gaps. Thread-compatible.
class Placer {
 public:
  // Makes a placer for these task indices, in ascending order. There are no measurements of
  // variables that are created one by one, so kMeasured counts bytes here, like kBytes.
  Placer(std::vector<int> ps, PlacementPolicy policy)
      : ps_(std::move(ps)), policy_(policy), given_(ps_.size(), 0) {
    COHORT_CHECK(!ps_.empty(), "placement needs at least one ps");
  }

  uint32_t Place(int64_t bytes) {
    const size_t least =
        static_cast<size_t>(std::min_element(given_.begin(), given_.end()) - given_.begin());
    const size_t chosen = policy_ == PlacementPolicy::kRoundRobin ? counter_++ % ps_.size() : least;
    given_[chosen] = PlusBytes(given_[chosen], bytes);
    return static_cast<uint32_t>(ps_[chosen]);
  }
  void Colocate(uint32_t ps, int64_t bytes) {
    const auto found = std::find(ps_.begin(), ps_.end(), static_cast<int>(ps));
    if (found == ps_.end()) return;
    int64_t& given = given_[static_cast<size_t>(found - ps_.begin())];
    given = PlusBytes(given, bytes);
  }

 private:
  const std::vector<int> ps_;
  const PlacementPolicy policy_;
  std::vector<int64_t> given_;  // bytes given to each server, by position in `ps_`
  uint64_t counter_ = 0;
};

}  // namespace cohort
