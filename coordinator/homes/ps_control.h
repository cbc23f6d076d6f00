#pragma once

// The coordinator's own calls to the parameter servers: make variables, read and set them, save and
// restore. Blocks on the waiter; training traffic never passes here. While a lost server is
// recovered, a call waits and is made again.

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

// The coordinator's own calls to homes. Every method's errors: UNAVAILABLE (PS_LOST) naming the ps;
// DEADLINE_EXCEEDED; the ps's own errors. Thread-safe.
class PsControl {
 public:
  // Runs its argument once variables are what the job's results say, or with why they never will.
  using WhenStable = std::function<void(absl::AnyInvocable<void(absl::Status)>)>;
  struct Options {
    absl::Duration timeout = absl::Seconds(60);           // for one call
    size_t call_bytes_max = kCallBytesMax;                // CallRounds'
    WhenStable when_stable;                               // empty: a loss is an error
    absl::Duration recovery_timeout = absl::Minutes(10);  // for a call with the waits before it
    // How long calls in a row may get no answer from tasks that are there.
    absl::Duration unanswered_max = absl::Seconds(60);
  };
  PsControl(World world, std::shared_ptr<Cluster> cluster, std::shared_ptr<ShardTransfer> transfer,
            Waiter& waiter, Options options);

  // Makes them anew, under the present epoch, whatever an earlier coordinator has left; of that it
  // logs one line.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> variables);
  // Reads the whole value, slices joined; the joint value, if replicas have values of their own.
  // Errors: INVALID_ARGUMENT if these have no joint value (common/program/replica_rows.h).
  absl::StatusOr<Tensor> Read(const proto::VariableLayout& variable);
  // Reads the value as it is kept: with a row for each replica, if each has a value.
  absl::StatusOr<Tensor> ReadAll(const proto::VariableLayout& variable);
  // Reads these rows, in this order; the variable has axis 0, and the ids are its rows, or keys of
  // a dynamic table. Rows that take several calls may be of different instants. Errors:
  // INVALID_ARGUMENT for a variable with values of replicas.
  absl::StatusOr<Tensor> ReadRows(const proto::VariableLayout& variable,
                                  absl::Span<const int64_t> ids);

  // Returns a number above all of this and of earlier coordinators.
  uint64_t NextUpdate();
  // Changes the variable: each slice makes the change with this number once, however often this is
  // called, unless it has made a later one. Changes are made one at a time. Errors:
  // INVALID_ARGUMENT for an operand of another type or shape, naming the variable, and those of
  // ChangeOfReplicas; OUT_OF_RANGE naming the variable and the id; then nothing was changed.
  absl::Status Change(const proto::VariableLayout& variable, const VariableChange& change,
                      uint64_t update);
  // Sets each variable to its moving average. Errors: INVALID_ARGUMENT for one without.
  absl::Status AssignAverages(absl::Span<const proto::VariableLayout> variables);
  // Writes the data shards of the checkpoint `prefix`, one per ps, in a directory that exists;
  // `extras` go into the first. What was written.
  absl::StatusOr<std::vector<proto::SavedSlice>> Save(const std::string& prefix,
                                                      const std::map<std::string, Tensor>& extras);
  // Slots that the checkpoint does not have, or all of them, begin as new.
  enum class Slots { kOfCheckpoint, kNew };
  absl::Status Restore(const std::string& prefix, Slots slots);
  // Returns sums over all ps, and maxima of maxima.
  absl::StatusOr<proto::PsStatsResponse> Stats();

  int num_ps() const { return cluster_->num_ps(); }
  int num_savers() const { return cluster_->num_savers(); }  // shards of a checkpoint

 private:
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAll(const std::string& method,
                                                          std::vector<Envelope<Request>> requests);
  // Returns how many requests CallAll needs: one for each home, or one for all copies. Copies come
  // and go, so nothing is counted or placed by their present number.
  int NumRequests(bool mirrored) const { return mirrored ? 1 : num_ps(); }
  // Returns for each slice the position of its home among the requests and responses of CallAll.
  // Errors: INVALID_ARGUMENT for a home that the cluster does not have.
  absl::StatusOr<std::vector<size_t>> HomesOf(const proto::VariableLayout& variable) const;

  // Reads these slices, by their places in the variable, by one call to each home.
  absl::Status ReadSlices(const proto::VariableLayout& variable, absl::Span<const size_t> homes,
                          absl::Span<const size_t> slices, Tensor& whole);
  // Reads these by one call to each home.
  absl::Status ReadSomeRows(const proto::VariableLayout& variable, absl::Span<const int64_t> ids,
                            size_t row_bytes, std::byte* out);
  // Changes these slices by one call to each holder, with what `numbered` says of the change.
  absl::Status ChangeSlices(const proto::VariableLayout& variable,
                            absl::Span<const VariablePart> parts, absl::Span<const size_t> slices,
                            const proto::AssignRequest& numbered);

  // Returns the result of `start`, or the loss of a home.
  template <typename T, typename Start>
  absl::StatusOr<T> AwaitHomes(absl::Duration timeout, absl::string_view what, Start start);
  // Returns the result of `once`, which is called again after a recovery while a ps was lost.
  template <typename T, typename Once>
  absl::StatusOr<T> UntilStable(const UnansweredCall& call, Once once);
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Envelope<Response>>> CallAllOnce(
      const std::string& method, std::vector<Envelope<Request>> requests);
  // Logs how many slices of an earlier coordinator gave way, once.
  void SayReplaced(absl::Span<const Envelope<proto::CreateVariablesResponse>> answers);
  absl::Status WaitUntilStable(absl::Time deadline, const absl::Status& loss);

  const World world_;
  const std::shared_ptr<Cluster> cluster_;         // shared with the coordinator
  const std::shared_ptr<ShardTransfer> transfer_;  // shared with what is under way
  Waiter& waiter_;
  const Options options_;
  std::atomic<bool> said_replaced_{false};
  Mutex update_mutex_;
  uint64_t last_update_ ABSL_GUARDED_BY(update_mutex_) = 0;
};

}  // namespace cohort
