#pragma once

// The coordinator's own calls to the parameter servers: they create variables, read and change
// values, save and restore. The calls block the calling thread. The pulls and pushes of training
// are made by workers, not here. While a lost server is being recovered, a call waits and is then
// repeated.

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

// The coordinator's own blocking calls to the homes of variables. Every method returns these
// errors: UNAVAILABLE (PS_LOST) naming the ps; DEADLINE_EXCEEDED; errors that a ps answers.
// Thread-safe.
class PsControl {
 public:
  // A function that calls its argument once no recovery is under way and the variables contain all
  // results that callers have seen, or with the reason why that will never be so. If it is null,
  // the loss of a home is an error at once.
  using WhenStable = std::function<void(absl::AnyInvocable<void(absl::Status)>)>;
  struct Options {
    absl::Duration timeout = absl::Seconds(60);  // how long one call may be silent
    // The most bytes that one call carries to or from a home (CallRounds).
    size_t call_bytes_max = kCallBytesMax;
    WhenStable when_stable;
    // The time limit of an operation, including its waits for recoveries.
    absl::Duration recovery_timeout = absl::Minutes(10);
    // How long calls in a row to a home may stay unanswered although the home serves.
    absl::Duration unanswered_max = absl::Seconds(60);
  };
  PsControl(World world, std::shared_ptr<Cluster> cluster, std::shared_ptr<ShardTransfer> transfer,
            Waiter& waiter, Options options);

  // Creates the variables on their homes, under the present epoch. Replaces variables that an
  // earlier coordinator has left there; if there were any, logs one line.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> variables);
  // Reads the whole value of the variable. If the variable has one value per replica, returns the
  // joint value of the replicas. Errors: INVALID_ARGUMENT if the replicas' values have no joint
  // value (common/program/aggregation.h).
  absl::StatusOr<Tensor> Read(const proto::VariableLayout& variable);
  // Reads the whole value as the homes keep it: if the variable has one value per replica, the
  // result has these values as its rows.
  absl::StatusOr<Tensor> ReadAll(const proto::VariableLayout& variable);
  // Reads the whole content of a slot of the variable's update rule. Errors: INVALID_ARGUMENT
  // naming the variable, for an unknown slot.
  absl::StatusOr<Tensor> ReadSlot(const proto::VariableLayout& variable, const std::string& slot);
  // Reads the rows `ids`, in this order. The variable must have at least one axis. The ids are row
  // numbers or, for a dynamic table, keys. If several calls are needed, rows of different calls may
  // be from different moments. Errors: INVALID_ARGUMENT for a variable with one value per replica.
  absl::StatusOr<Tensor> ReadRows(const proto::VariableLayout& variable,
                                  absl::Span<const int64_t> ids);

  // Returns a number for a new change. It is greater than all numbers that this or an earlier
  // coordinator has used.
  uint64_t NextUpdate();
  // Changes the variable; `update` is the number of the change (NextUpdate). Each slice makes the
  // change once, even if Change is called again with the same number. A slice that has made a
  // change with a greater number does not make this one. Changes must be made one at a time.
  // Errors, after which nothing was changed: INVALID_ARGUMENT naming the variable, for an operand
  // of another type or shape; those of ChangeOfReplicas; OUT_OF_RANGE naming the variable and the
  // id.
  absl::Status Change(const proto::VariableLayout& variable, const VariableChange& change,
                      uint64_t update);
  // Overwrites the whole content of a slot of the variable's update rule. `update` is the number of
  // the change (NextUpdate), as in Change. Errors, after which nothing was changed:
  // INVALID_ARGUMENT naming the variable, for an unknown slot or content of another type or shape.
  absl::Status SetSlot(const proto::VariableLayout& variable, const std::string& slot,
                       const Tensor& content, uint64_t update);
  // Sets each variable to its moving average. Errors: INVALID_ARGUMENT if a variable has no moving
  // average.
  absl::Status AssignAverages(absl::Span<const proto::VariableLayout> variables);
  // Writes the data shards of the checkpoint `prefix`, one per ps. The directory must exist. The
  // first shard also contains the tensors `extras`. Returns the slices that were written. The
  // caller writes the index.
  absl::StatusOr<std::vector<proto::SavedSlice>> Save(const std::string& prefix,
                                                      const std::map<std::string, Tensor>& extras);
  // The source of the optimizer slots in a restore. kOfCheckpoint: the checkpoint, except that
  // slots which it lacks get initial values. kNew: all slots get initial values.
  enum class Slots { kOfCheckpoint, kNew };
  absl::Status Restore(const std::string& prefix, Slots slots);
  // Returns the combined counters of all ps. Counters are added; of maxima, the largest is taken.
  absl::StatusOr<proto::PsStatsResponse> Stats();

  int num_ps() const { return cluster_->num_ps(); }
  // Returns the number of data shards in a checkpoint.
  int num_savers() const { return cluster_->num_savers(); }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAll(const std::string& method,
                                                          std::vector<Envelope<Request>> requests);
  // Returns how many requests CallAll needs: one per home or, for mirrored variables, a single one
  // that goes to all copies. The number of copies may change at any time, so it does not matter
  // here.
  int NumRequests(bool mirrored) const { return mirrored ? 1 : num_ps(); }
  // Returns, for each slice of the variable, the position of its home in the requests and responses
  // of CallAll. Errors: INVALID_ARGUMENT naming a home that the cluster does not have.
  absl::StatusOr<std::vector<size_t>> HomesOf(const proto::VariableLayout& variable) const;

  // Reads the whole variable, or with a name the slot of its update rule, into `whole`.
  absl::Status ReadInto(const proto::VariableLayout& variable, const std::string& slot,
                        Tensor& whole);
  // The part of a variable that a pull reads: its value if `slot` is empty, and the homes of its
  // slices.
  struct Reading {
    const proto::VariableLayout& variable;
    const std::string& slot;
    const std::vector<size_t>& homes;
  };
  // Reads slices into `whole`, with one call to each home. `slices` are positions in the variable's
  // list of slices.
  absl::Status ReadSlices(const Reading& reading, absl::Span<const size_t> slices, Tensor& whole);
  // Reads the rows `ids` into `out`, with one call to each home.
  absl::Status ReadSomeRows(const proto::VariableLayout& variable, absl::Span<const int64_t> ids,
                            size_t row_bytes, std::byte* out);
  // Makes a numbered change of all slices of the variable. `numbered` holds all of it but the
  // parts.
  absl::Status ChangeAll(const proto::VariableLayout& variable,
                         absl::Span<const VariablePart> parts,
                         const proto::AssignRequest& numbered);
  // Changes slices of the variable, with one call to each home. `slices` are positions in the
  // variable's list of slices, and `numbered` holds the operation and the number of the change.
  absl::Status ChangeSlices(const proto::VariableLayout& variable,
                            absl::Span<const VariablePart> parts, absl::Span<const size_t> slices,
                            const proto::AssignRequest& numbered);

  // Calls `start` and waits for its result. For variables that are not mirrored, returns the loss
  // of a home if that comes first.
  template <typename T, typename Start>
  absl::StatusOr<T> AwaitHomes(absl::Duration timeout, absl::string_view what, Start start);
  // Calls `once` and returns its result. If `once` failed because a ps was lost, waits for the
  // recovery and calls `once` again.
  template <typename T, typename Once>
  absl::StatusOr<T> UntilStable(const UnansweredCall& call, Once once);
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAllOnce(
      const std::string& method, std::vector<Envelope<Request>> requests);
  // Logs how many slices of an earlier coordinator were replaced, unless this was logged before.
  void SayReplaced(absl::Span<const Envelope<proto::CreateVariablesResponse>> answers);
  absl::Status WaitUntilStable(absl::Time deadline, const absl::Status& loss);

  const World world_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  // The transfer of shards, shared with transfers under way.
  const std::shared_ptr<ShardTransfer> transfer_;
  Waiter& waiter_;
  const Options options_;
  std::atomic<bool> said_replaced_{false};
  Mutex update_mutex_;
  uint64_t last_update_ ABSL_GUARDED_BY(update_mutex_) = 0;
};

}  // namespace cohort
