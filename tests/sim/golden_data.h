#pragma once

// Data of golden files for jobs in simulated time, and the losses of the steps of such a job.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/network/sim_transport.h"

namespace cohort {

// The losses of the steps, in the order in which the worker answered.
class StepLosses final : public SimWatcher {
 public:
  const std::vector<double>& losses() const { return losses_; }

  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage& message) override;

 private:
  std::vector<double> losses_;
};

// Returns the tensors, one behind the other along axis 0, as an IDX file. Each is an object with
// "shape", "data" and, unless its elements are int32, the "dtype" "float32".
std::string IdxOf(const std::vector<nlohmann::json>& tensors);

}  // namespace cohort
