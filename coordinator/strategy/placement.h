#pragma once

// The choice of a parameter server for every piece of a model's variables, with reasons for people.
// The partitioner says how variables are cut into pieces. The policy says on which server each
// piece lies:
//
//   round_robin  in creation order, like TensorFlow: piece k on server k mod P of P servers
//   bytes        largest piece first, each to the server that has the fewest bytes so far.
//   Optimizer
//                slots count as well, because a ps keeps them beside the variable.
//   measured     like `bytes`, but counts the bytes that the parameter servers of an earlier run
//                sent and received for the rows of a piece. So a table with many requests counts
//                for more than a large table with few. Pieces without any request are placed by
//                their bytes. If nothing was measured, this policy is `bytes`.
//
// A dynamic table has one slice on every server, whatever the policy. Its slices count with the
// table's memory limit, or not at all without a limit, because nobody knows beforehand how many
// rows the table will have.

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

// Converts the name of a policy. Errors: INVALID_ARGUMENT for an unknown name.
absl::StatusOr<PlacementPolicy> PlacementPolicyFromName(absl::string_view name);

// The bytes that the parameter servers of an earlier run moved for a range of rows of a variable.
struct RowsLoad {
  RowRange rows;
  int64_t bytes = 0;
};
using MeasuredLoads = std::map<std::string, std::vector<RowsLoad>>;

// A piece of a variable, and the server on which it is placed.
struct PiecePlacement {
  std::string name;  // name of the piece, such as "dense/kernel/part_1"
  RowRange rows;
  bool dynamic = false;  // if true, `rows` is a range of key buckets
  int64_t bytes = 0;     // size of the piece's value and slots
  int64_t load = 0;      // bytes moved in an earlier run; 0 if not measured
  uint32_t ps = 0;
  std::string reason;
};

struct PlacementInput {
  std::vector<int> ps;  // ascending task indices of the parameter servers
  PlacementPolicy policy = PlacementPolicy::kRoundRobin;
  MeasuredLoads loads;
};
// Places every slice of `layouts` on a server, which becomes its home. Returns the pieces in the
// order of the slices.
std::vector<PiecePlacement> PlacePieces(const PlacementInput& input,
                                        absl::Span<proto::VariableLayout> layouts);

// Returns the homes of all slices, in the order of the slices.
std::vector<uint32_t> HomesOf(absl::Span<const proto::VariableLayout> layouts);
// Sets the homes of all slices, given in the order of the slices. Changes nothing if the number of
// homes is not the number of slices, or if a home is not in `ps`.
void PlaceAt(absl::Span<const uint32_t> homes, absl::Span<const int> ps,
             absl::Span<proto::VariableLayout> layouts);

// Returns how unevenly `weight` (bytes or load) is distributed: the largest sum on one server,
// divided by the mean over all servers. Returns 1 if all sums are 0.
double MaxOverMean(absl::Span<const PiecePlacement> pieces, absl::Span<const int> ps,
                   int64_t PiecePlacement::*weight);

// Places pieces on parameter servers one after another, without knowing the pieces that follow.
// With round robin, the k-th piece goes to server k mod P of the P servers in index order, as in
// TensorFlow; slices and scalars count alike. By bytes, a piece goes to the server that has got the
// fewest bytes so far, and to the first of several such servers. A piece that is colocated with
// another variable does not advance the round robin, but its bytes count. Servers are named by
// their task indices, which may have gaps. Thread-compatible.
class Placer {
 public:
  // Makes a placer for servers with these ascending task indices. Variables that are created one by
  // one have no measurements, so kMeasured does here what kBytes does.
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
