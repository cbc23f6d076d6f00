#pragma once

// The dynamic table that workers train together in some seeds, beside their variable: its keys are
// the examples of the batches, and each step counts every example of its batch once. Without times
// to live each row is known at each step; with them it is known that all copies are the same.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/program/graph_builder.h"
#include "coordinator/strategy/variable_creator.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

struct GangTable {
  proto::DynamicTable policy;

  // In a third of the seeds.
  static std::optional<GangTable> Draw(uint64_t seed);
  // Of a key that so many steps have trained, where no row expires.
  bool IsKnown() const { return policy.ttl_ms() == 0; }
  float ValueBehind(uint64_t steps) const {
    return steps < policy.admit_after() ? 0 : static_cast<float>(steps - policy.admit_after() + 1);
  }
  VariableSpec Variable() const;
  std::string Describe() const;
};

// Adds to a step what it reads of the table: the sum of the rows of its examples, by name.
std::string ReadTable(GraphBuilder& graph, proto::Program& program);
// Adds the update to a step whose model is in the program and reads the table so.
absl::Status AddTableUpdate(const std::string& sum, proto::Program& program);

}  // namespace cohort
