#pragma once

// The progress of the training, as each recovery checkpoint saves it: the epoch, which steps of the
// epoch are covered, and the sums that these steps reported. An epoch's steps have consecutive ids,
// and a closure has the id of its first step, so the ids that a cut leaves open tell which closures
// are left to run.

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

// Thread-safe. Shared: the recovery holds the progress.
class TrainProgress {
 public:
  // Makes a progress; `settings` is the fingerprint (job_settings.h) that must be the same in a
  // process that continues the job.
  explicit TrainProgress(uint32_t settings) : settings_(settings) {}

  // Takes over the progress that an earlier process saved. Errors: FAILED_PRECONDITION for other
  // settings, other data or other devices; DATA_LOSS.
  absl::Status Load(const proto::CoordinatorState& state);

  // Returns the homes that `state` contains, which SetHomes was given before `state` was saved.
  // Changes nothing.
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
    // Ascending; left to run are these closures, and those from `next` on.
    std::vector<ClosureId> open;
    ClosureId next;
    EpochMeter::Sums sums;  // sums of the closures that are not left to run
    bool IsLeft(ClosureId id) const;
  };
  // Begins an epoch whose first closure is `first`. If an earlier process has begun this epoch,
  // returns what that process did.
  std::optional<Begun> BeginEpoch(ClosureId first);
  // Ends the epoch, all of whose steps are done; the next epoch begins at `data`.
  void EndEpoch(int64_t steps, const DataPosition& data, const Totals& epoch);
  // Sets the homes of the slices, by slice id; empty: the homes follow from the job and its
  // cluster.
  void SetHomes(std::vector<uint32_t> homes);
  // Sets the devices of all workers, if the job takes all devices of each worker; empty: the job
  // names its devices. Called before Load.
  void SetDevices(std::vector<std::string> devices);
  // The identity of the training data, before any split. An order of examples belongs to data of
  // one identity. Set before Load.
  struct DataIdentity {
    int64_t length = 0;    // number of examples of the data
    uint32_t content = 0;  // checksum of the data (CreateDatasetResponse.content)
    friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
  };
  void SetData(DataIdentity data);
  // Sets the progress of a training that did not start from a recovery checkpoint.
  void SetProgress(const Progress& progress);

  // Returns the bytes of a TrainState, in which the closures of `cut` are covered.
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
  // The id of the epoch's first closure; 0: no epoch is under way.
  ClosureId first_ ABSL_GUARDED_BY(mutex_);
  // Sums that an earlier process reported for this epoch.
  EpochMeter::Sums sums_before_ ABSL_GUARDED_BY(mutex_);
  // The sums that closures reported and a cut covers, by closure.
  std::map<ClosureId, EpochMeter::Sums> reported_ ABSL_GUARDED_BY(mutex_);
  std::optional<Begun> begun_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
