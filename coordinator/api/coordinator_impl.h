#pragma once

// The inside of a ClusterCoordinator, which programs do not see.

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/world.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/api/read_cache.h"
#include "coordinator/api/variable.h"
#include "coordinator/cluster/ask_workers.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/recovery/recovery_store.h"
#include "coordinator/schedule/closure.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/strategy/variable_creator.h"
#include "proto/plan.pb.h"

namespace cohort {

// The state of a coordinator, and what its methods have in common. Thread-safe.
struct CoordinatorImpl {
  CoordinatorImpl(World world, Waiter& waiter, ClusterCoordinatorOptions job);

  // Returns the incarnation of this coordinator, by which it recognizes handles that it made. The
  // incarnation is the same in all epochs.
  uint64_t owner() const { return parts.cluster->self().incarnation; }
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec, const proto::UpdateRule& rule,
                                          const std::string& colocate_with);
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> variables);
  // Makes a change, and makes it again as long as a recovery has begun before it was durable.
  // `change` may be repeated.
  absl::Status UntilDurable(absl::FunctionRef<absl::Status()> change);
  absl::Status MakeDurable();
  absl::StatusOr<RecoveryStore::Left> ReadLeft() const;
  absl::StatusOr<SliceStarts> LeftSlices() const;
  // Reads left_slices if it is not known yet.
  void FindLeftSlices();
  DataQuestion QuestionAbout(const RegisteredDataset& dataset) const;
  absl::Status WaitFor(absl::string_view what, absl::FunctionRef<void(Recovery::Done)> start);
  // Calls `start`, and waits until the scheduler runs the completion that `start` got as its
  // argument, or until the timeout. `what` names the awaited event in the error text.
  absl::Status Wait(absl::Duration timeout, absl::string_view what,
                    absl::FunctionRef<WaitId(Scheduler::Done)> start);
  // Makes the error of a wait that timed out. The text names `what` was waited for and the tasks
  // that do not answer. The error's origin is the task that has been silent for longest.
  absl::Status TimedOut(absl::Duration timeout, absl::string_view what) const;

  const World world;
  Waiter& waiter;
  const ClusterCoordinatorOptions options;
  const CoordinatorParts parts;
  std::atomic<bool> resumed{false};
  // True if a recovery checkpoint may be taken: the program has given its state, or the job was
  // resumed.
  std::atomic<bool> has_state{false};
  Mutex mutex;
  VariableCreator creator ABSL_GUARDED_BY(mutex);
  // The result of LeftSlices() when the first variable was made in a scope.
  std::optional<SliceStarts> left_slices ABSL_GUARDED_BY(mutex);
  // The next slice id of a variable made in a scope.
  uint32_t next_slice_id ABSL_GUARDED_BY(mutex) = 0;
  std::map<std::string, proto::VariableLayout> layouts ABSL_GUARDED_BY(mutex);
  uint64_t last_resource_id ABSL_GUARDED_BY(mutex) = 0;
  // The answers of DescribeDataset, by data set id.
  std::map<uint64_t, DataOfWorkers> described ABSL_GUARDED_BY(mutex);
  Mutex change_mutex;
  ReadCache read_cache;
};

}  // namespace cohort
