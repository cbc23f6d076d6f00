#pragma once

// What Keras computed with its optimizers, and the slots that a ps would allocate for them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/plan.pb.h"

namespace cohort {

// One optimizer's run as Keras computed it (tests/golden/optimizers).
struct GoldenCase {
  std::string label;
  proto::UpdateRule rule;
  double learning_rate = 0;
  std::vector<std::pair<uint64_t, std::vector<double>>> values;  // by step
};

struct Golden {
  size_t width = 0;  // elements of a row
  std::vector<float> start;
  std::vector<std::vector<float>> gradients;
  std::vector<GoldenCase> cases;
};

Golden ReadGolden();

using Slots = std::vector<std::vector<float>>;

// The slots that the ps would allocate.
Slots MakeSlots(const proto::UpdateRule& rule, const std::vector<float>& start, size_t width);

}  // namespace cohort
