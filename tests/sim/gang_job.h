#pragma once

// The job of one seed in which workers train together: a variable that every worker has a copy of,
// and items of work. A step is a gang closure: each replica sums the examples of its part of the
// batch, and the sum over all replicas is added to every element. So the value behind each step is
// known from outside, and what a replica has read at a step tells whether its copy is in step. A
// survey is a gang that fetches what the next step will, and changes nothing. A look is a single
// closure that reads the copy of the worker that runs it; an echo changes and reads nothing. In
// some seeds closures run several steps, and in some a step counts its examples in a dynamic table
// (gang_table.h). Id i is item i, whatever dies.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/sim/gang_table.h"
#include "tests/sim/job_plan.h"

namespace cohort {

// What a step fetches, by place. Of the first four: one number for each replica. The last one only
// where there is a table: the sum of the rows of its examples.
enum class StepFetch { kRan, kFirst, kLast, kSum, kSquares, kTable };
inline constexpr size_t kStepFetchesMax = 6;

struct GangPlan : JobPlan {
  enum class Item { kStep, kSurvey, kLook, kEcho };
  // Of one batch, as a step fetches it.
  struct Examples {
    int64_t count = 0;
    float sum = 0;
    float squares = 0;
  };

  int replicas = 1;  // on each
  int gang_min = 1;
  int64_t rows = 1;
  int64_t batch_size = 4;
  int64_t examples = 10;
  int64_t bytes_per_pack = 0;
  bool ring = false;
  absl::Duration exchange_timeout;  // zero: none
  absl::Duration worker_delay;      // of a worker's task, at most
  std::optional<GangTable> table;
  std::vector<Item> items;

  static GangPlan Draw(uint64_t seed);
  Item Of(uint64_t id) const { return items[id - 1]; }
  bool IsGang(uint64_t id) const { return Of(id) == Item::kStep || Of(id) == Item::kSurvey; }
  // How many items the closure is that begins with this one.
  uint64_t ItemsOf(uint64_t closure) const { return items_of_[closure - 1]; }
  // Of a closure, at most.
  uint64_t steps_max() const { return steps_max_; }
  // Of each step; an answer that is lost holds the others back until those of all are over.
  absl::Duration closure_timeout() const {
    return std::max(lease * 20 / static_cast<int64_t>(steps_max_), lease * 5);
  }
  // Which step the item is, from 1; or how many steps are before it.
  uint64_t StepOf(uint64_t id) const { return step_of_[id - 1]; }
  // Whose batch and values a gang takes.
  uint64_t StepTakenBy(uint64_t id) const { return StepOf(id) + (Of(id) == Item::kSurvey ? 1 : 0); }
  uint64_t num_steps() const { return step_of_.back(); }
  int64_t batches() const { return (examples + batch_size - 1) / batch_size; }
  Examples BatchOf(uint64_t step) const;
  int64_t FirstOf(uint64_t step) const;  // example of its batch
  // Of each step: how many tensors it fetches.
  size_t step_fetches() const { return kStepFetchesMax - (table.has_value() ? 0 : 1); }
  // How many of so many steps have trained the example, which is a key of the table.
  uint64_t StepsWith(int64_t example, uint64_t steps) const;
  // Of every element behind so many steps.
  float ValueBehind(uint64_t steps) const { return values_[steps]; }
  // Whether a copy may have it at some time.
  bool IsAValue(float value) const;
  std::string Describe() const;

 private:
  // Of so many steps at most, where as many follow one another.
  void DrawClosures(uint64_t seed);
  // In half of the seeds, some before steps, and one behind the last.
  void DrawSurveys(uint64_t seed);

  uint64_t steps_max_ = 1;
  std::vector<uint64_t> items_of_;
  std::vector<uint64_t> step_of_;
  std::vector<float> values_;  // ascend
};

inline constexpr int kReplicaPlaces = 8;
// Programs, data and the variable, made anew by each coordinator.
struct GangPrograms {
  std::map<GangPlan::Item, ProgramHandle> of;
  DatasetHandle data;
  proto::VariableLayout variable;
  std::optional<proto::VariableLayout> table;
};
absl::StatusOr<GangPrograms> MakeGangPrograms(ClusterCoordinator& coordinator,
                                              const GangPlan& plan);
ScheduleOptions OptionsFor(const GangPlan& plan, const GangPrograms& programs, uint64_t closure);

// Says what is wrong with what so many steps have fetched, those with ids from `first` on; empty:
// nothing.
std::string CheckSteps(const GangPlan& plan, uint64_t first, uint64_t steps,
                       const FetchedTensors& fetched, int workers);
std::string CheckLook(const GangPlan& plan, const FetchedTensors& fetched);

}  // namespace cohort
