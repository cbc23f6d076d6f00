#pragma once

// The coordinator's own calls to the parameter servers, which create variables, read and set
// values, save and restore. The calls block on the waiter; training traffic does not use PsControl.
// While a lost server is being recovered, a call waits and is then repeated.

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/homes/shard_transfer.h"
#include "coordinator/homes/variable_change.h"
#include "proto/plan.pb.h"
#include "proto/ps.pb.h"

namespace cohort {

// The coordinator's own blocking calls to the homes of variables. Every method's errors:
// UNAVAILABLE (PS_LOST) naming the ps; DEADLINE_EXCEEDED; the ps's own errors. Thread-safe.
class PsControl {
 public:
  // Runs its argument once the variables are consistent with the job's results, or with the reason
  // why they never will be. Null: the loss of a home is an error at once.
  using WhenStable = std::function<void(absl::AnyInvocable<void(absl::Status)>)>;
  struct Options {
    absl::Duration timeout = absl::Seconds(60);  // how long one call may be silent
    // The most bytes that one call carries to or from a home (CallRounds).
    size_t call_bytes_max = kCallBytesMax;
    WhenStable when_stable;
    // The time-out of an operation, including its waits for recoveries.
    absl::Duration recovery_timeout = absl::Minutes(10);
    // How long consecutive calls to a home that serves may stay unanswered.
    absl::Duration unanswered_max = absl::Seconds(60);
  };
  PsControl(World world, std::shared_ptr<Cluster> cluster, std::shared_ptr<ShardTransfer> transfer,
            Waiter& waiter, Options options);

  // Creates the variables anew, under the present epoch, in place of variables that an earlier
  // coordinator has left; logs one line if there were any.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> variables);
  // Reads the whole value with its slices joined. If each replica has a value of its own, returns
  // the joint value of the replicas. Errors: INVALID_ARGUMENT if the replicas' values have no joint
  // value (common/program/aggregation.h).
  absl::StatusOr<Tensor> Read(const proto::VariableLayout& variable);
  // Reads the value as the homes keep it: with one row per replica, if each replica has a value.
  absl::StatusOr<Tensor> ReadAll(const proto::VariableLayout& variable);
  // Reads the rows `ids` in this order. The variable must have an axis 0; the ids are row numbers,
  // or keys of a dynamic table. If several calls are needed, rows of different calls may be of
  // different instants. Errors: INVALID_ARGUMENT for a variable with one value per replica.
  absl::StatusOr<Tensor> ReadRows(const proto::VariableLayout& variable,
                                  absl::Span<const int64_t> ids);

  // Returns the number of a new change: larger than all numbers of this coordinator and of earlier
  // ones.
  uint64_t NextUpdate();
  // Changes the variable; `update` is the number of the change. Each slice makes the change once,
  // even if Change is called again with the number, and not at all if it has made a later change.
  // Changes must be made one at a time. Errors: INVALID_ARGUMENT naming the variable, for an
  // operand of another type or shape, and those of ChangeOfReplicas; OUT_OF_RANGE naming the
  // variable and the id. Nothing was changed then.
  absl::Status Change(const proto::VariableLayout& variable, const VariableChange& change,
                      uint64_t update);
  // Sets each variable to its moving average. Errors: INVALID_ARGUMENT for a variable without a
  // moving average.
  absl::Status AssignAverages(absl::Span<const proto::VariableLayout> variables);
  // Writes the data shards of the checkpoint `prefix`, one per ps, into a directory that exists;
  // the first shard also gets `extras`. Returns the slices that were written.
  absl::StatusOr<std::vector<proto::SavedSlice>> Save(const std::string& prefix,
                                                      const std::map<std::string, Tensor>& extras);
  // The optimizer slots after a restore. kOfCheckpoint: from the checkpoint, and initial values for
  // slots that it lacks. kNew: initial values.
  enum class Slots { kOfCheckpoint, kNew };
  absl::Status Restore(const std::string& prefix, Slots slots);
  // Returns the counters of all ps combined: sums, or for counters of maxima the largest.
  absl::StatusOr<proto::PsStatsResponse> Stats();

  int num_ps() const { return cluster_->num_ps(); }
  // The number of data shards of a checkpoint.
  int num_savers() const { return cluster_->num_savers(); }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAll(const std::string& method,
                                                          std::vector<Envelope<Request>> requests);
  // Returns how many requests CallAll needs: one for each home or, for mirrored variables, a single
  // one that goes to all copies. The number of copies may change at any time, so the number of
  // requests does not depend on it.
  int NumRequests(bool mirrored) const { return mirrored ? 1 : num_ps(); }
  // Returns, for each slice, the index of its home's entry in the requests and responses of
  // CallAll. Errors: INVALID_ARGUMENT for a home that the cluster does not have.
  absl::StatusOr<std::vector<size_t>> HomesOf(const proto::VariableLayout& variable) const;

  // Reads the slices with the positions `slices` in the variable into `whole`, by one call to each
  // home.
  absl::Status ReadSlices(const proto::VariableLayout& variable, absl::Span<const size_t> homes,
                          absl::Span<const size_t> slices, Tensor& whole);
  // Reads the rows `ids` by one call to each home, and writes them to `out`.
  absl::Status ReadSomeRows(const proto::VariableLayout& variable, absl::Span<const int64_t> ids,
                            size_t row_bytes, std::byte* out);
  // Changes the slices with the positions `slices` in the variable, by one call to each home.
  // `numbered` holds the operation and the number of the change.
  absl::Status ChangeSlices(const proto::VariableLayout& variable,
                            absl::Span<const VariablePart> parts, absl::Span<const size_t> slices,
                            const proto::AssignRequest& numbered);

  // Waits for the result of `start` and returns it, or the loss of a home if that comes first.
  template <typename T, typename Start>
  absl::StatusOr<T> AwaitHomes(absl::Duration timeout, absl::string_view what, Start start);
  // Calls `once` and returns its result. If `once` failed because a ps was lost, waits for the
  // recovery and calls it again.
  template <typename T, typename Once>
  absl::StatusOr<T> UntilStable(const UnansweredCall& call, Once once);
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAllOnce(
      const std::string& method, std::vector<Envelope<Request>> requests);
  // Logs, only once, how many slices of an earlier coordinator were replaced.
  void SayReplaced(absl::Span<const Envelope<proto::CreateVariablesResponse>> answers);
  absl::Status WaitUntilStable(absl::Time deadline, const absl::Status& loss);

  const World world_;
  const std::shared_ptr<Cluster> cluster_;         // the cluster, shared with the coordinator
  const std::shared_ptr<ShardTransfer> transfer_;  // shared with the transfers under way
  Waiter& waiter_;
  const Options options_;
  std::atomic<bool> said_replaced_{false};
  Mutex update_mutex_;
  uint64_t last_update_ ABSL_GUARDED_BY(update_mutex_) = 0;
};

}  // namespace cohort
