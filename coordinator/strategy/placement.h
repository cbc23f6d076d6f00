#pragma once

// The servers of the pieces of a whole model, and the reasons. The partitioner says how variables
// are cut; the policy says on which parameter server each piece lies:
//   round_robin  in creation order, TensorFlow's: piece k on server k mod P
//   bytes        largest piece first, each to the server that holds the fewest bytes so far. Slots
//                count: a ps keeps them beside the variable.
//   measured     the same by the bytes that the parameter servers of an earlier run sent and
//                received for these rows, so that tables with many requests count for more than
//                large ones that few ask for. Pieces that nobody asked for are placed by bytes.
//                Without a measurement: bytes.
// The slices of a dynamic table stay where they are, one on every server, and count with the limit
// of memory that they have, if they have one: nobody knows beforehand which rows there will be.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/strategy/placer.h"
#include "proto/plan.pb.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for a name that is none of those above.
absl::StatusOr<PlacementPolicy> PlacementPolicyFromName(absl::string_view name);

// Bytes moved for some of a variable's rows.
struct RowsLoad {
  RowRange rows;
  int64_t bytes = 0;
};
using MeasuredLoads = std::map<std::string, std::vector<RowsLoad>>;

// A piece of a plan.
struct PiecePlacement {
  std::string name;  // "dense/kernel/part_1"
  RowRange rows;
  bool dynamic = false;  // rows under keys: `rows` are buckets of them
  int64_t bytes = 0;     // value and slots
  int64_t load = 0;      // bytes moved in the earlier run; 0 without a measurement
  uint32_t ps = 0;
  std::string reason;
};

struct PlacementInput {
  std::vector<int> ps;  // task indices, ascending
  PlacementPolicy policy = PlacementPolicy::kRoundRobin;
  MeasuredLoads loads;
};
// Gives every slice of `layouts` its home. The pieces in the order of the slices.
std::vector<PiecePlacement> PlacePieces(const PlacementInput& input,
                                        absl::Span<proto::VariableLayout> layouts);

// Returns the homes of all slices, in their order.
std::vector<uint32_t> HomesOf(absl::Span<const proto::VariableLayout> layouts);
// Gives the slices these homes, if there is one for each and it is one of `ps`; else they stay.
void PlaceAt(absl::Span<const uint32_t> homes, absl::Span<const int> ps,
             absl::Span<proto::VariableLayout> layouts);

// Returns the bytes (or the measured load) of the server that has most, as a multiple of the mean;
// 1 if there is nothing.
double MaxOverMean(absl::Span<const PiecePlacement> pieces, absl::Span<const int> ps,
                   int64_t PiecePlacement::*weight);

}  // namespace cohort
