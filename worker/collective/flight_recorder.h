#pragma once

// A record of one rank's last operations in a group. When a group has stalled or was aborted, the
// record tells which rank waits for which rank, and since when. Operations have the same sequence
// numbers on all ranks, so the records of several ranks can be compared line by line.
//
// A flight file is such a record on disk. The worker writes it when the group has been aborted, so
// that the record can be read after the worker is gone. `coordinator ctl flight-record` shows the
// files of several workers side by side.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/base/mutex.h"
#include "proto/collective.pb.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/collective_errors.h"

namespace cohort {

struct FlightRecord {
  enum class State : uint8_t { kNone, kUnderWay, kDone, kFailed };

  uint64_t sequence = 0;
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kUndefined;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  State state = State::kNone;
  std::string name;
  size_t bytes = 0;  // size of the input or the output, whichever is larger
  absl::Time started;
  // The time at which the last frame from a rank in `waits_for` came; InfinitePast if none has
  // come.
  absl::Time last_heard;
  absl::Time ended;
  // Ranks from which the operation still needs a first frame.
  absl::InlinedVector<int, 8> waits_for;
};

// The record of the last kFlightRecordsMax operations of one rank in a group. Thread-safe.
class FlightRecorder {
 public:
  static constexpr size_t kFlightRecordsMax = 4096;

  // The rank whose operations are recorded, and its group.
  struct Owner {
    GroupName group;
    int rank = 0;
    int size = 1;
    std::vector<proto::TaskRef> tasks;  // the task of each rank of the group; may be empty
    // The words for the algorithm of a call that was started with kAuto, such as "shared memory".
    std::string way = "auto";
  };
  explicit FlightRecorder(Owner owner) : owner_(std::move(owner)) {}

  struct Begin {
    uint64_t sequence = 0;
    const CollectiveCall* call = nullptr;
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;  // the algorithm that runs the call
    absl::InlinedVector<int, 8> waits_for;  // the other ranks from which the call needs frames
  };
  void Started(Begin begin, absl::Time now);
  // Notes that a frame of operation `sequence` has come from `rank`.
  void Heard(uint64_t sequence, int rank, absl::Time now);
  void Ended(uint64_t sequence, const absl::Status& status, absl::Time now);

  // Returns all records, the oldest operation first.
  std::vector<FlightRecord> Records() const;

  // Returns the records of the newest operations, at most `calls_max`, in one line of text.
  std::string Newest(size_t calls_max) const;
  // Returns the group's name and ranks, and the records of the newest operations, at most
  // `calls_max`. The time of an operation that is under way is measured up to `now`.
  proto::GroupFlight ToProto(size_t calls_max, absl::Time now) const;

  // Returns the newest operation of this rank that has succeeded, in words: "call 416, all-reduce
  // 'bucket 3'"; "no call" if none has succeeded.
  std::string LastDone() const;

 private:
  FlightRecord& SlotOf(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Owner owner_;
  mutable Mutex mutex_;
  // A ring buffer: operation number s is at index s modulo kFlightRecordsMax. Empty before the
  // first operation.
  std::vector<FlightRecord> records_ ABSL_GUARDED_BY(mutex_);
  FlightRecord last_done_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_started_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_with_ ABSL_GUARDED_BY(mutex_);  // the error of the first operation that failed
};

// Returns a recorded operation in words: "call 416, all-reduce 'bucket 3'".
std::string NameOf(const FlightRecord& record);

// The largest number of flight files of one task in one directory. When a further file is written,
// the oldest is removed.
inline constexpr size_t kFlightFilesMax = 4;

// Writes `flight` as JSON, about 230 bytes for each operation, to a file in `directory`, which is
// made if it is missing. Returns the file's path, such as
// "cohort-worker-1-20261125T053019.123456Z.flight.json". Blocks. Errors: those of
// WriteFileAtomically and MakeDirectories.
absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now);

}  // namespace cohort
