#pragma once

// The progress of the training, as each recovery checkpoint saves it: which epoch, which of its
// steps are covered, and what those reported. An epoch's steps have consecutive ids, and a closure
// has the id of its first step, so the ids that a cut leaves open say which closures are left.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/api/progress.h"
#include "coordinator/schedule/redo_log.h"
#include "coordinator/train/epoch_meter.h"
#include "proto/recovery.pb.h"

namespace cohort {

// Thread-safe. Shared: the recovery holds it.
class TrainProgress {
 public:
  // Makes a progress; `settings` is the crc32c of what must be the same in the process that goes
  // on.
  explicit TrainProgress(uint32_t settings) : settings_(settings) {}

  // Takes up what an earlier process saved. Errors: FAILED_PRECONDITION for other settings, other
  // data and other devices; DATA_LOSS.
  absl::Status Load(const proto::CoordinatorState& state);

  // Returns what SetHomes was given where `state` was saved; takes nothing else up.
  static std::vector<uint32_t> HomesIn(const proto::CoordinatorState& state);

  Progress progress() const;
  // Examples and seconds of the epochs that are done.
  struct Totals {
    double examples = 0;
    double seconds = 0;
  };
  Totals totals() const;

  // An epoch of which an earlier process ran a part.
  struct Begun {
    ClosureId first;
    std::vector<ClosureId> open;  // ascending: these, and those from `next` on, are left
    ClosureId next;
    EpochMeter::Sums sums;  // those of the others
    bool IsLeft(ClosureId id) const;
  };
  // Begins an epoch, with closure `first` on, unless one has begun.
  std::optional<Begun> BeginEpoch(ClosureId first);
  // Ends the epoch, all of whose steps are done; the next one begins at `data`.
  void EndEpoch(int64_t steps, const DataPosition& data, const Totals& epoch);
  // Sets where the slices lie, by id; empty: that follows from the job and its cluster.
  void SetHomes(std::vector<uint32_t> homes);
  // Sets the devices, all of each worker, that the job takes; empty: it names its devices. Called
  // before Load.
  void SetDevices(std::vector<std::string> devices);
  // The data to train on, before any split: an order of examples is one of these data. Before Load.
  struct DataIdentity {
    int64_t length = 0;    // examples
    uint32_t content = 0;  // CreateDatasetResponse.content
    friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
  };
  void SetData(DataIdentity data);
  // Progress that did not come from a recovery checkpoint.
  void SetProgress(const Progress& progress);

  // Returns the bytes of a TrainState.
  std::string Save(const Cut& cut);

 private:
  absl::Status CheckDataLocked(const proto::TrainState& train) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t settings_;
  mutable Mutex mutex_;
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> homes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> devices_ ABSL_GUARDED_BY(mutex_);
  DataIdentity data_ ABSL_GUARDED_BY(mutex_);
  ClosureId first_ ABSL_GUARDED_BY(mutex_);               // 0: no epoch is under way
  EpochMeter::Sums sums_before_ ABSL_GUARDED_BY(mutex_);  // those of an earlier process
  // keyed by covered closure
  std::map<ClosureId, EpochMeter::Sums> reported_ ABSL_GUARDED_BY(mutex_);
  std::optional<Begun> begun_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
