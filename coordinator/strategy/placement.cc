#include "coordinator/strategy/placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

// The bytes and the load of the pieces that one server has got so far.
struct Given {
  int64_t bytes = 0;
  int64_t load = 0;
};

// Returns the measured load of a slice. `measured` has the bytes moved for ranges of rows, which
// need not be slices now: the bytes of each range are spread evenly over its rows.
int64_t LoadOf(const std::vector<RowsLoad>& measured, const proto::SliceHome& slice) {
  double load = 0;
  const int64_t end = slice.row_begin() + slice.row_count();
  for (const RowsLoad& part : measured) {
    // Only rows that are both in the slice and in the measured range count.
    const int64_t shared = std::min(end, part.rows.begin + part.rows.count) -
                           std::max(slice.row_begin(), part.rows.begin);
    if (shared <= 0) continue;
    load += static_cast<double>(part.bytes) * static_cast<double>(shared) /
            static_cast<double>(part.rows.count);
  }
  return std::llround(load);
}

// Returns the pieces of all layouts, with their sizes and loads. Only pieces of dynamic tables have
// a server already.
std::vector<PiecePlacement> PiecesOf(absl::Span<proto::VariableLayout> layouts,
                                     const MeasuredLoads& loads) {
  std::vector<PiecePlacement> pieces;
  for (const proto::VariableLayout& layout : layouts) {
    const auto measured = loads.find(layout.name());
    for (int i = 0; i < layout.slices_size(); ++i) {
      const proto::SliceHome& slice = layout.slices(i);
      PiecePlacement& piece = pieces.emplace_back();
      piece.name = SliceName(layout, i);
      piece.rows = {slice.row_begin(), slice.row_count()};
      piece.bytes = PieceBytes(layout, i);
      piece.dynamic = layout.has_dynamic();
      if (piece.dynamic) {
        piece.ps = slice.ps();
        piece.reason = "dynamic: a share of the keys on every ps";
      }
      piece.load = measured == loads.end() ? 0 : LoadOf(measured->second, slice);
    }
  }
  return pieces;
}

void PlaceRoundRobin(const std::vector<int>& ps, std::vector<PiecePlacement>& pieces) {
  Placer placer(ps, PlacementPolicy::kRoundRobin);
  size_t k = 0;
  for (PiecePlacement& piece : pieces) {
    if (piece.dynamic) continue;
    piece.ps = placer.Place(piece.bytes);
    piece.reason = absl::StrCat("piece ", k, " in creation order: ", k, " mod ", ps.size(), " = ",
                                k % ps.size());
    ++k;
  }
}

// Places pieces greedily, the largest first. In the end, the fullest server exceeds the mean by at
// most the size of the piece that it got last. That is little, unless a few pieces have nearly all
// bytes.
void PlaceLargestFirst(const std::vector<int>& ps, std::vector<PiecePlacement>& pieces) {
  std::vector<Given> given(ps.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PiecePlacement& piece = pieces[i];
    if (!piece.dynamic) {
      order.push_back(i);
      continue;
    }
    const auto home = std::find(ps.begin(), ps.end(), static_cast<int>(piece.ps));
    // Pieces of dynamic tables are counted first, because they have their servers already.
    Given& has = given[static_cast<size_t>(home - ps.begin())];
    has.bytes = PlusBytes(has.bytes, piece.bytes);
    has.load += piece.load;
  }
  // The sort is stable: pieces of equal size keep their creation order, so equal jobs get equal
  // plans.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(pieces[a].load, pieces[a].bytes) >
           std::make_pair(pieces[b].load, pieces[b].bytes);
  });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    PiecePlacement& piece = pieces[order[rank]];
    // Pieces without a measured load come last in the order, and are placed by their bytes.
    const bool by_load = piece.load > 0;
    const auto least =
        std::min_element(given.begin(), given.end(), [&](const Given& a, const Given& b) {
          return by_load ? a.load < b.load : a.bytes < b.bytes;
        });
    piece.ps = static_cast<uint32_t>(ps[static_cast<size_t>(least - given.begin())]);
    piece.reason = absl::StrCat("no. ", rank + 1, " of ", order.size(),
                                by_load ? " by load" : " by bytes", ": ps:", piece.ps,
                                by_load ? " had the least load, " : " had the fewest bytes, ",
                                by_load ? least->load : least->bytes);
    least->bytes = PlusBytes(least->bytes, piece.bytes);
    least->load += piece.load;
  }
}

}  // namespace

absl::StatusOr<PlacementPolicy> PlacementPolicyFromName(absl::string_view name) {
  if (name == "round_robin") return PlacementPolicy::kRoundRobin;
  if (name == "bytes") return PlacementPolicy::kBytes;
  if (name == "measured") return PlacementPolicy::kMeasured;
  return absl::InvalidArgumentError(absl::StrCat("strategy.placement is '", name,
                                                 "'; it must be round_robin, bytes or measured"));
}

std::vector<PiecePlacement> PlacePieces(const PlacementInput& input,
                                        absl::Span<proto::VariableLayout> layouts) {
  const bool measured = input.policy == PlacementPolicy::kMeasured;
  std::vector<PiecePlacement> pieces = PiecesOf(layouts, measured ? input.loads : MeasuredLoads());
  if (input.policy == PlacementPolicy::kRoundRobin) {
    PlaceRoundRobin(input.ps, pieces);
  } else {
    PlaceLargestFirst(input.ps, pieces);
  }
  // The pieces are in the order of the slices of `layouts`.
  auto piece = pieces.begin();
  for (proto::VariableLayout& layout : layouts) {
    for (proto::SliceHome& slice : *layout.mutable_slices()) slice.set_ps((piece++)->ps);
  }
  return pieces;
}

std::vector<uint32_t> HomesOf(absl::Span<const proto::VariableLayout> layouts) {
  std::vector<uint32_t> homes;
  for (const proto::VariableLayout& layout : layouts) {
    for (const proto::SliceHome& slice : layout.slices()) homes.push_back(slice.ps());
  }
  return homes;
}

void PlaceAt(absl::Span<const uint32_t> homes, absl::Span<const int> ps,
             absl::Span<proto::VariableLayout> layouts) {
  const bool known = std::all_of(homes.begin(), homes.end(), [&](uint32_t home) {
    return std::find(ps.begin(), ps.end(), static_cast<int>(home)) != ps.end();
  });
  // If the homes belong to another model or another cluster, the slices keep their present homes.
  if (!known || homes.size() != HomesOf(layouts).size()) return;
  auto home = homes.begin();
  for (proto::VariableLayout& layout : layouts) {
    for (proto::SliceHome& slice : *layout.mutable_slices()) slice.set_ps(*home++);
  }
}

double MaxOverMean(absl::Span<const PiecePlacement> pieces, absl::Span<const int> ps,
                   int64_t PiecePlacement::*weight) {
  std::map<int, int64_t> by_ps;
  int64_t sum = 0;
  for (const PiecePlacement& piece : pieces) {
    int64_t& held = by_ps[static_cast<int>(piece.ps)];
    held = PlusBytes(held, piece.*weight);
    sum = PlusBytes(sum, piece.*weight);
  }
  if (sum == 0) return 1;
  // The result is max / mean, where the mean over P servers is sum / P.
  int64_t most = 0;
  for (const auto& [index, held] : by_ps) most = std::max(most, held);
  return static_cast<double>(most) * static_cast<double>(ps.size()) / static_cast<double>(sum);
}

}  // namespace cohort
