#include "ps_server/round_mean.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace cohort {

namespace {

absl::Span<const float> Floats(const Buffer& buffer) {
  return {reinterpret_cast<const float*>(buffer.data()), buffer.size() / sizeof(float)};
}

}  // namespace

std::optional<bool> RoundMean::IsOfAllRows() const {
  if (parts_.empty()) return std::nullopt;
  return !parts_.begin()->second.rows.has_value();
}

void RoundMean::Begin(uint64_t round) {
  parts_.clear();
  round_ = round;
}

RoundMean::Mean RoundMean::Take() {
  COHORT_CHECK(!parts_.empty(), "a mean is of something");
  const std::map<uint64_t, Part> parts = std::exchange(parts_, {});
  const bool all_rows = !parts.begin()->second.rows.has_value();
  const float share = 1.0f / static_cast<float>(parts.size());
  size_t bytes = 0;
  for (const auto& [closure, part] : parts) {
    bytes = all_rows ? part.gradient->size() : bytes + part.gradient->size();
  }
  const std::shared_ptr<Buffer> sum = Buffer::Allocate(bytes);
  auto* out = reinterpret_cast<float*>(sum->data());
  Mean mean;
  if (!all_rows) mean.rows.emplace();
  for (const auto& [closure, part] : parts) {
    const absl::Span<const float> gradient = Floats(*part.gradient);
    const bool adds = all_rows && !mean.closures.empty();
    for (size_t i = 0; i < gradient.size(); ++i) {
      out[i] = adds ? out[i] + gradient[i] * share : gradient[i] * share;
    }
    if (!all_rows) {
      out += gradient.size();
      mean.rows->insert(mean.rows->end(), part.rows->begin(), part.rows->end());
    }
    mean.closures.push_back(closure);
  }
  if (bytes > 0) mean.gradient.push_back({sum, sum->data(), bytes});
  return mean;
}

}  // namespace cohort
