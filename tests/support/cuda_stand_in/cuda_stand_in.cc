#include "tests/support/cuda_stand_in/cuda_stand_in.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace cohort {

namespace {

constexpr uint64_t kAlignment = 256;
// Behind each memory, so that what is written beyond its end is seen when it is freed.
constexpr uint64_t kGuard = 256;
constexpr int kFresh = 0xff;  // memory is not zero when it is new: NaN, -1
constexpr std::byte kGuarded{0xa5};
constexpr int32_t kNoMemory = 2;  // the codes are CUDA's
constexpr int32_t kBroken = 700;

// What the devices of a table share: one mapping, handed out from the lowest free place, and beside
// it, unprotected, as much of the heap as it leaves. Thread-safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes)
      : bytes_(bytes),
        begin_(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    COHORT_CHECK(begin_ != MAP_FAILED, "a mapping for the devices' memory");
  }

  void* Allocate(int32_t device, uint64_t bytes) {
    MutexLock lock(mutex_);
    const uint64_t wanted = WithGuard(bytes);
    if (bytes_ - used_ < wanted) return nullptr;
    uint64_t at = 0;
    for (const auto& [begin, taken] : taken_) {
      if (begin - at >= wanted) break;
      at = begin + taken.size;
    }
    if (bytes_ - at < wanted) return nullptr;
    taken_[at] = {bytes, wanted, device};
    used_ += wanted;
    OpenLocked();
    Prepare(begin_ + at, bytes);
    CloseLocked();
    return begin_ + at;
  }
  void* AllocateUnified(int32_t device, uint64_t bytes) {
    MutexLock lock(mutex_);
    const uint64_t wanted = WithGuard(bytes);
    if (bytes_ - used_ < wanted) return nullptr;
    auto* const memory = static_cast<std::byte*>(operator new(wanted, kAligned));
    unified_[AddressOf(memory)] = {bytes, wanted, device};
    used_ += wanted;
    Prepare(memory, bytes);
    return memory;
  }
  void Free(void* memory) {
    MutexLock lock(mutex_);
    if (const auto unified = unified_.find(AddressOf(memory)); unified != unified_.end()) {
      EndLocked(unified_, unified, memory);
      operator delete(memory, kAligned);
      return;
    }
    OpenLocked();
    EndLocked(taken_, taken_.find(AddressOf(memory) - AddressOf(begin_)), memory);
    CloseLocked();
  }
  bool IsOf(int32_t device, const void* memory) const {
    MutexLock lock(mutex_);
    return Has(unified_, AddressOf(memory), device) ||
           Has(taken_, AddressOf(memory) - AddressOf(begin_), device);
  }
  uint64_t left() const {
    MutexLock lock(mutex_);
    return bytes_ - used_;
  }
  uint64_t bytes() const { return bytes_; }

  void Open() {
    MutexLock lock(mutex_);
    OpenLocked();
  }
  void Close() {
    MutexLock lock(mutex_);
    CloseLocked();
  }

 private:
  struct Taken {
    uint64_t bytes = 0;  // that were asked for
    uint64_t size = 0;
    int32_t device = 0;
  };
  using Places = std::map<uint64_t, Taken>;  // by begin
  static constexpr std::align_val_t kAligned{kAlignment};

  static uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }
  static uint64_t WithGuard(uint64_t bytes) {
    return (bytes + kGuard + kAlignment - 1) / kAlignment * kAlignment;
  }
  static void Prepare(std::byte* memory, uint64_t bytes) {
    std::memset(memory, kFresh, bytes);
    std::fill_n(memory + bytes, kGuard, kGuarded);
  }
  static bool Has(const Places& places, uint64_t address, int32_t device) {
    auto after = places.upper_bound(address);
    if (after == places.begin()) return false;
    const auto& [begin, taken] = *--after;
    return address - begin < taken.bytes && taken.device == device;
  }
  void EndLocked(Places& places, Places::iterator place, const void* memory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    COHORT_CHECK(place != places.end(), "memory of the device is freed once");
    const auto* const end = static_cast<const std::byte*>(memory) + place->second.bytes;
    COHORT_CHECK(std::all_of(end, end + kGuard, [](std::byte b) { return b == kGuarded; }),
                 "nobody writes beyond the end of memory of the device");
    used_ -= place->second.size;
    places.erase(place);
  }
  void OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (open_++ == 0) mprotect(begin_, bytes_, PROT_READ | PROT_WRITE);
  }
  void CloseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (--open_ == 0) mprotect(begin_, bytes_, PROT_NONE);
  }

  const uint64_t bytes_;
  std::byte* const begin_;
  mutable Mutex mutex_;
  Places taken_ ABSL_GUARDED_BY(mutex_);    // of the mapping, from its begin on
  Places unified_ ABSL_GUARDED_BY(mutex_);  // of the heap
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;  // functions that run
};

struct Library {
  explicit Library(int32_t devices, uint64_t bytes) : devices(devices), memory(bytes) {}

  const int32_t devices;
  DeviceMemory memory;
};

std::atomic<int64_t> fail_after{-1};
std::atomic<int64_t> fail_late_after{-1};

// Counts down, and is true once.
bool IsNow(std::atomic<int64_t>& calls) { return calls >= 0 && calls-- == 0; }

}  // namespace

// What was posted runs when it is waited for. Memory that is freed before is freed then.
struct CudaContext {
  CudaContext(Library& library, int32_t device) : library(library), device(device) {}

  void Free(void* memory) {
    MutexLock lock(mutex_);
    freed_.push_back(memory);
    if (posted_.empty() && !runs_) FreeAllLocked();
  }
  int32_t Post(std::function<void()> work) {
    if (IsNow(fail_after)) return kBroken;
    MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
    return kCudaDone;
  }
  int32_t Run() {
    std::vector<std::function<void()>> now;
    {
      MutexLock lock(mutex_);
      now.swap(posted_);
      runs_ = true;
    }
    int32_t code = kCudaDone;
    library.memory.Open();
    for (const auto& work : now) {
      if (IsNow(fail_late_after)) code = kBroken;
      if (code == kCudaDone) work();
    }
    library.memory.Close();
    MutexLock lock(mutex_);
    runs_ = false;
    FreeAllLocked();
    return code;
  }
  int64_t size() {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(posted_.size());
  }

  Library& library;
  const int32_t device;

 private:
  void FreeAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (void* const memory : freed_) library.memory.Free(memory);
    freed_.clear();
  }

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  std::vector<void*> freed_ ABSL_GUARDED_BY(mutex_);
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;
};

int32_t PostToDevice(CudaContext* context, std::function<void()> work) {
  return context->Post(std::move(work));
}

namespace {

Library& LibraryOf(void* self) { return *static_cast<Library*>(self); }

void ErrorWords(void*, int32_t code, char* words, uint64_t bytes) {
  std::snprintf(words, bytes, "stand-in: %s (%d)",
                code == kNoMemory ? "out of memory" : "an illegal memory access", code);
}

int32_t DeviceCount(void* self, int32_t* count) {
  *count = LibraryOf(self).devices;
  return kCudaDone;
}

int32_t OpenContext(void* self, int32_t device, CudaContext** context) {
  *context = new CudaContext(LibraryOf(self), device);
  return kCudaDone;
}

void CloseContext(CudaContext* context) {
  COHORT_CHECK(context->size() == 0, "what was posted is waited for");
  delete context;
}

// As cudaFree waits, what was freed is there again.
int32_t Allocate(CudaContext* context, uint64_t bytes, void** memory) {
  *memory = context->library.memory.Allocate(context->device, bytes);
  if (*memory != nullptr) return kCudaDone;
  if (const int32_t code = context->Run(); code != kCudaDone) return code;
  *memory = context->library.memory.Allocate(context->device, bytes);
  return *memory == nullptr ? kNoMemory : kCudaDone;
}

int32_t AllocateUnified(CudaContext* context, uint64_t bytes, void** memory) {
  if (const int32_t code = context->Run(); code != kCudaDone) return code;
  *memory = context->library.memory.AllocateUnified(context->device, bytes);
  return *memory == nullptr ? kNoMemory : kCudaDone;
}

int32_t Reaches(CudaContext* context, const void* memory, bool* yes) {
  *yes = context->library.memory.IsOf(context->device, memory);
  return kCudaDone;
}

void Free(CudaContext* context, void* memory) { context->Free(memory); }

int32_t MemoryLeft(CudaContext* context, uint64_t* left, uint64_t* all) {
  *left = context->library.memory.left();
  *all = context->library.memory.bytes();
  return kCudaDone;
}

int32_t Copy(CudaContext* context, void* to, const void* from, uint64_t bytes) {
  return context->Post([=] { std::memcpy(to, from, bytes); });
}

int32_t FillZeros(CudaContext* context, void* device, uint64_t bytes) {
  return context->Post([=] { std::memset(device, 0, bytes); });
}

int32_t Wait(CudaContext* context) { return context->Run(); }

struct StandIn {
  StandIn(int32_t devices, uint64_t bytes) : state(devices, bytes) {}

  Library state;
  CudaTable table;
};

// Kept to the end: memory may be freed by whatever goes last.
StandIn& NewStandIn(int32_t devices, uint64_t bytes) {
  static Mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<StandIn>>;
  MutexLock lock(mutex);
  return *all->emplace_back(std::make_unique<StandIn>(devices, bytes));
}

}  // namespace

const CudaTable& MakeCudaStandIn(int32_t devices, uint64_t bytes) {
  StandIn& made = NewStandIn(devices, bytes);
  CudaTable* const table = &made.table;
  table->self = &made.state;
  table->error_words = ErrorWords;
  table->device_count = DeviceCount;
  table->open = OpenContext;
  table->close = CloseContext;
  table->allocate = Allocate;
  table->allocate_unified = AllocateUnified;
  table->reaches = Reaches;
  table->free = Free;
  table->memory_left = MemoryLeft;
  table->copy_to_device = Copy;
  table->copy_to_host = Copy;
  table->copy_on_device = Copy;
  table->fill_zeros = FillZeros;
  table->wait = Wait;
  table->launches = MakeCudaLaunches();
  return *table;
}

void RunOnCudaStandIn(const CudaTable& table, const std::function<void()>& work) {
  DeviceMemory& memory = LibraryOf(table.self).memory;
  memory.Open();
  work();
  memory.Close();
}

void FailCudaStandInAfter(int64_t calls) { fail_after = calls; }

void FailCudaStandInLateAfter(int64_t calls) { fail_late_after = calls; }

}  // namespace cohort
