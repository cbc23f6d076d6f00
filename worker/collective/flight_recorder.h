#pragma once

// A record of one rank's last operations in a group, for the question that is asked when a group
// stands still or has been aborted: who waits for whom, and since when. Operations have the same
// sequence numbers on all ranks, so the records of several ranks can be laid side by side.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
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
  size_t bytes = 0;  // bytes of the larger of input and output
  absl::Time started;
  absl::Time last_heard;  // when the last missing rank was heard; past: some are still missing
  absl::Time ended;
  absl::InlinedVector<int, 8> waits_for;  // ranks of which nothing has come
};

// Keeps the last kFlightRecordsMax operations. Thread-safe.
class FlightRecorder {
 public:
  static constexpr size_t kFlightRecordsMax = 4096;

  // The rank whose calls are recorded.
  struct Owner {
    GroupName group;
    int rank = 0;
    int size = 1;
    std::vector<proto::TaskRef> tasks;  // one per rank; or empty
    // The description of calls that have no algorithm, such as "shared memory".
    std::string way = "auto";
  };
  explicit FlightRecorder(Owner owner) : owner_(std::move(owner)) {}

  struct Begin {
    uint64_t sequence = 0;
    const CollectiveCall* call = nullptr;
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;  // the algorithm that runs
    absl::InlinedVector<int, 8> waits_for;                       // ranks that must start it too
  };
  void Started(Begin begin, absl::Time now);
  // Notes that something of the operation has come from the rank.
  void Heard(uint64_t sequence, int rank, absl::Time now);
  void Ended(uint64_t sequence, const absl::Status& status, absl::Time now);

  // Returns the records from the oldest on.
  std::vector<FlightRecord> Records() const;

  // Returns at most so many of the newest records in one line.
  std::string Newest(size_t calls_max) const;
  // Returns at most so many of the newest records, as of `now`.
  proto::GroupFlight ToProto(size_t calls_max, absl::Time now) const;

  // Returns the last call that has ended well here, "call 416, all-reduce 'bucket 3'", or "no
  // call".
  std::string LastDone() const;

 private:
  FlightRecord& SlotOf(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Owner owner_;
  mutable Mutex mutex_;
  std::vector<FlightRecord> records_ ABSL_GUARDED_BY(mutex_);  // a ring, by sequence
  FlightRecord last_done_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_started_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_with_ ABSL_GUARDED_BY(mutex_);  // the first error of a call
};

// Returns "call 416, all-reduce 'bucket 3'".
std::string NameOf(const FlightRecord& record);

}  // namespace cohort
