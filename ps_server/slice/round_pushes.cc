#include "ps_server/slice/round_pushes.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

namespace {

template <typename T>
absl::Span<const T> ElementsOf(const Buffer& buffer) {
  return {reinterpret_cast<const T*>(buffer.data()), buffer.size() / sizeof(T)};
}

// Writes in[i] * share to out[i] for every i. If `adds` is true, adds in[i] * share to out[i]
// instead.
template <typename T>
void JoinInto(absl::Span<const T> in, T share, bool adds, T* out) {
  for (size_t i = 0; i < in.size(); ++i) out[i] = adds ? out[i] + in[i] * share : in[i] * share;
}

}  // namespace

std::optional<RoundPushes::Kind> RoundPushes::kind() const {
  if (parts_.empty()) return std::nullopt;
  return parts_.begin()->second.kind;
}

void RoundPushes::Begin(uint64_t round) {
  const InvariantsAfter check(*this);
  parts_.clear();
  round_ = round;
}

void RoundPushes::Keep(uint64_t closure, Part part) {
  const InvariantsAfter check(*this);
  parts_.emplace(closure, std::move(part));
}

void RoundPushes::DropBelow(uint64_t closure) {
  const InvariantsAfter check(*this);
  parts_.erase(parts_.begin(), parts_.lower_bound(closure));
}

std::shared_ptr<Buffer> RoundPushes::Join(const Parts& parts, proto::VariableAggregation how,
                                          DType dtype) {
  // Pushes of some rows are joined by appending their gradients; the update of the rows later adds
  // up the gradients of equal rows. Pushes of all rows have equal sizes and are added up here,
  // element by element.
  const bool behind = parts.begin()->second.kind == Kind::kSomeRows;
  size_t bytes = 0;
  for (const auto& [closure, part] : parts) {
    bytes = behind ? bytes + part.elements->size() : part.elements->size();
  }
  const std::shared_ptr<Buffer> joined = Buffer::Allocate(bytes);
  const bool mean = how == proto::AGGREGATION_MEAN;
  const float share = mean ? 1.0f / static_cast<float>(parts.size()) : 1.0f;
  std::byte* out = joined->data();
  bool adds = false;
  // The parts are ordered by closure id, so floats are added in the same order whatever the order
  // in which the pushes arrived.
  for (const auto& [closure, part] : parts) {
    // Int32 and int64 are added as unsigned numbers, which wrap around on overflow.
    switch (dtype) {
      case DType::kInt32:
        JoinInto<uint32_t>(ElementsOf<uint32_t>(*part.elements), 1, adds,
                           reinterpret_cast<uint32_t*>(out));
        break;
      case DType::kInt64:
        JoinInto<uint64_t>(ElementsOf<uint64_t>(*part.elements), 1, adds,
                           reinterpret_cast<uint64_t*>(out));
        break;
      default:
        JoinInto<float>(ElementsOf<float>(*part.elements), share, adds,
                        reinterpret_cast<float*>(out));
        break;
    }
    adds = !behind;
    if (behind) out += part.elements->size();
  }
  return joined;
}

RoundPushes::Joined RoundPushes::Take(proto::VariableAggregation how, DType dtype) {
  const InvariantsAfter check(*this);
  COHORT_CHECK(!parts_.empty(), "a round that is joined has at least one push");
  Parts parts = std::exchange(parts_, {});
  Joined joined;
  joined.kind = parts.begin()->second.kind;
  // The closures of all kept pushes count as applied, even if only the first push is used.
  for (const auto& [closure, part] : parts) joined.closures.push_back(closure);
  if (how == proto::AGGREGATION_ONLY_FIRST_REPLICA) parts.erase(++parts.begin(), parts.end());
  for (const auto& [closure, part] : parts) {
    joined.rows.insert(joined.rows.end(), part.rows.begin(), part.rows.end());
  }
  // If there is a single push, the sum and the mean are this push's own elements.
  const std::shared_ptr<Buffer> elements =
      parts.size() == 1 ? parts.begin()->second.elements : Join(parts, how, dtype);
  if (elements->size() > 0) {
    joined.elements.push_back(ByteSlice{elements, elements->data(), elements->size()});
  }
  return joined;
}

void RoundPushes::CheckInvariants() const {
  COHORT_CHECK(parts_.empty() || round_ > 0, "pushes are kept under the number of their round");
  if (parts_.size() > kInvariantWalkMax) return;
  for (const auto& [closure, part] : parts_) {
    COHORT_CHECK(part.kind == *kind(), "pushes of one round are of one kind");
    COHORT_CHECK(part.elements != nullptr, "a push has elements");
    COHORT_CHECK(part.kind == Kind::kSomeRows || part.rows.empty(),
                 "only pushes of some rows name them");
  }
}

}  // namespace cohort
