#pragma once

// NCCL and CUDA without either: the functions of NcclTable over threads and host memory. A device
// is a thread that does what was posted, in that order. A communicator behaves as NCCL's does
// where that is hard on its users: it does not block, what is started is on the stream only when
// its state has been asked for some times, and a collective that a rank does not make, or makes
// otherwise, stands for ever. Sums are in the order of the tree (reduce_tree.h), so that the bits
// that come back show whether the right elements were sent the right way.
//
// The GPUs of one process (open_local) add up in another order, from the last one to the first. As
// NCCL does it is given memory of another module's: where that is protected, RunOn says how to use
// it.
//
// What may not be done is recorded: misuse().

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

struct FakeContext;  // a rank's, fake_context.h
struct FakeGroup;
struct FakeOperation;
struct FakeComm;

// The machine. Outlives its contexts. Thread-safe.
class FakeNccl {
 public:
  enum class Fault {
    kNone,
    kHang,        // the group of operations never ends, until it is aborted
    kError,       // nor does it, and the state of the communicator tells of an error
    kAbortHangs,  // as kHang, and abort does not end it
    kCopyFails,   // copying to the host fails; what comes behind it does not run
  };

  explicit FakeNccl(int devices);
  ~FakeNccl();

  const NcclTable& table() const { return table_; }
  // Of the device's groups of operations that of this number, from 0 on, has the fault.
  void SetFault(int device, Fault fault, int at_group);
  void SetVersion(int32_t version);
  // Streams come back late from what they call.
  void LingerInCalls();
  // Does what GPUs of one process do to memory that is not the fake's.
  using Devices = std::function<void(const std::function<void()>& work)>;
  void RunOn(Devices devices);
  // After so many calls of open_local and reduce_local one fails, once.
  void FailLocalAfter(int calls);
  // Ends what hangs in spite of abort, so that the test can.
  void EndAll();

  struct Counters {
    int groups = 0;  // of operations, that were begun by streams
    int hung = 0;    // of those, for a fault
    int joined = 0;  // contexts
    int aborted = 0;
    int destroyed = 0;
    int contexts = 0;    // open
    int memories = 0;    // allocated
    int locals = 0;      // open, of GPUs of one process
    int reductions = 0;  // over those
  };
  Counters counters() const;
  std::vector<std::string> misuse() const;

 private:
  friend struct FakeFunctions;
  friend struct FakeLocalFunctions;

  void AddLocalFunctions();
  bool Lingers() const;
  void MisuseLocked(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // That the bytes were allocated.
  void CheckMemoryLocked(const void* begin, uint64_t bytes, const char* where)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostLocked(FakeContext& context, std::function<int32_t()> task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunStream(FakeContext& context);
  int32_t RunGroup(FakeContext& context, const FakeGroup& group);
  void EnterLocked(FakeContext& context, const std::shared_ptr<FakeOperation>& operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MeetLocked(FakeComm& comm, const std::vector<std::shared_ptr<FakeOperation>>& operations)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PairLocked(FakeComm& comm, std::pair<int, int> from_to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  NcclTable table_;
  const int devices_;
  Devices run_on_ = [](const std::function<void()>& work) { work(); };  // set before its use
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::vector<uint8_t>, std::shared_ptr<FakeComm>> comms_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::pair<Fault, int>> faults_ ABSL_GUARDED_BY(mutex_);  // by device
  std::map<int, int> groups_of_ ABSL_GUARDED_BY(mutex_);                 // begun, by device
  std::map<const std::byte*, uint64_t> memory_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> misuse_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  uint8_t ids_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t version_ ABSL_GUARDED_BY(mutex_) = 22809;
  int local_calls_left_ ABSL_GUARDED_BY(mutex_) = -1;  // until one fails; negative: none does
  bool lingers_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_end_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
