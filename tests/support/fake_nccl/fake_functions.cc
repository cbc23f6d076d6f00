#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "tests/support/fake_nccl/fake_context.h"

namespace cohort {

namespace {

constexpr int32_t kCopyError = 7002;
constexpr int32_t kNoDevice = 7003;
// Before what was started is on the stream.
constexpr int kAsks = 2;

}  // namespace

// The functions of the table. Each finds its machine in its first argument.
struct FakeFunctions {
  static FakeNccl& Of(void* self) { return *static_cast<FakeNccl*>(self); }

  static void ErrorWords(NcclContext*, int32_t code, char* words, uint64_t bytes) {
    if (code == kFakeLocalError) {
      std::snprintf(words, bytes, "NCCL: unhandled system error (%d)", code);
      return;
    }
    const char* text = code == 7001 ? "NCCL: a remote process has ended" : "CUDA: a copy failed";
    if (code == kNoDevice) text = "CUDA: invalid device";
    std::snprintf(words, bytes, "%s (%d)", text, code);
  }
  static int32_t Version(void* self, int32_t* version) {
    MutexLock lock(Of(self).mutex_);
    *version = Of(self).version_;
    return kNcclDone;
  }
  static int32_t DeviceCount(void* self, int32_t* count) {
    *count = Of(self).devices_;
    return kNcclDone;
  }
  static int32_t UniqueId(void* self, uint8_t* id) {
    MutexLock lock(Of(self).mutex_);
    std::memset(id, 0x5a, kNcclIdBytes);
    id[kNcclIdBytes - 1] = ++Of(self).ids_;
    return kNcclDone;
  }

  static int32_t Open(void* self, int32_t device, NcclContext** context) {
    FakeNccl& fake = Of(self);
    if (device < 0 || device >= fake.devices_) return kNoDevice;
    auto* const opened = new FakeContext;
    opened->fake = &fake;
    opened->device = device;
    opened->stream = std::thread([&fake, opened] { fake.RunStream(*opened); });
    *context = reinterpret_cast<NcclContext*>(opened);
    MutexLock lock(fake.mutex_);
    ++fake.counters_.contexts;
    return kNcclDone;
  }
  static void Close(NcclContext* context) {
    FakeContext& closed = FakeOf(context);
    FakeNccl& fake = *closed.fake;
    {
      MutexLock lock(fake.mutex_);
      if (closed.comm != nullptr) fake.MisuseLocked("closed before it has left");
      if (!closed.tasks.empty() || closed.running) fake.MisuseLocked("closed while it runs");
      closed.stopping = true;
      fake.changed_.NotifyAll();
      --fake.counters_.contexts;
    }
    closed.stream.join();
    delete &closed;
  }
  static int32_t Allocate(NcclContext* context, uint64_t bytes, void** memory) {
    FakeNccl& fake = *FakeOf(context).fake;
    auto* const made = new std::byte[bytes];
    std::memset(made, 0xcd, bytes);
    MutexLock lock(fake.mutex_);
    fake.memory_[made] = bytes;
    *memory = made;
    return kNcclDone;
  }
  static void Free(NcclContext* context, void* memory) {
    FakeNccl& fake = *FakeOf(context).fake;
    auto* const freed = static_cast<std::byte*>(memory);
    MutexLock lock(fake.mutex_);
    if (fake.memory_.erase(freed) == 0) fake.MisuseLocked("freed what was not allocated");
    delete[] freed;
  }

  static int32_t Join(NcclContext* context, const uint8_t* id, int32_t rank, int32_t size) {
    FakeContext& joined = FakeOf(context);
    FakeNccl& fake = *joined.fake;
    MutexLock lock(fake.mutex_);
    std::shared_ptr<FakeComm>& comm = fake.comms_[std::vector<uint8_t>(id, id + kNcclIdBytes)];
    if (comm == nullptr) comm = std::make_shared<FakeComm>();
    if (comm->size != 0 && comm->size != size) fake.MisuseLocked("joined with another size");
    if (!comm->joined.insert(rank).second) fake.MisuseLocked("a rank joined twice");
    comm->size = size;
    joined.comm = comm;
    joined.rank = rank;
    ++fake.counters_.joined;
    return kNcclUnderWay;
  }
  static int32_t CommState(NcclContext* context) {
    FakeContext& asked = FakeOf(context);
    FakeNccl& fake = *asked.fake;
    MutexLock lock(fake.mutex_);
    if (asked.comm == nullptr) {
      fake.MisuseLocked("the state of no communicator");
      return kNoDevice;
    }
    if (asked.comm_error != 0) return asked.comm_error;
    if (static_cast<int>(asked.comm->joined.size()) < asked.comm->size) return kNcclUnderWay;
    if (!asked.posts) return kNcclDone;
    if (--asked.asks_left > 0) return kNcclUnderWay;
    asked.posts = false;
    fake.PostLocked(asked, [&fake, &asked, group = std::move(asked.open)] {
      return fake.RunGroup(asked, group);
    });
    asked.open = {};
    return kNcclDone;
  }
  static int32_t Leave(NcclContext* context) {
    FakeContext& leaving = FakeOf(context);
    MutexLock lock(leaving.fake->mutex_);
    if (!leaving.tasks.empty()) leaving.fake->MisuseLocked("left with something under way");
    return kNcclUnderWay;
  }
  static int32_t Destroy(NcclContext* context) {
    FakeContext& left = FakeOf(context);
    MutexLock lock(left.fake->mutex_);
    ++left.fake->counters_.destroyed;
    left.comm = nullptr;
    return kNcclDone;
  }
  static void Abort(NcclContext* context) {
    FakeContext& ended = FakeOf(context);
    FakeNccl& fake = *ended.fake;
    MutexLock lock(fake.mutex_);
    ++fake.counters_.aborted;
    ended.aborted = true;
    if (ended.comm != nullptr) ended.comm->aborted = true;
    fake.changed_.NotifyAll();
    while (ended.abort_hangs && !fake.all_end_) fake.changed_.Wait(fake.mutex_);
    ended.comm = nullptr;
  }

  static int32_t ToDevice(NcclContext* context, void* device, const void* host, uint64_t bytes) {
    FakeContext& copier = FakeOf(context);
    MutexLock lock(copier.fake->mutex_);
    copier.fake->CheckMemoryLocked(device, bytes, "copying to");
    copier.fake->CheckMemoryLocked(host, bytes, "copying from");
    copier.fake->PostLocked(copier, [=] {
      std::memcpy(device, host, bytes);
      return 0;
    });
    return kNcclDone;
  }
  static int32_t ToHost(NcclContext* context, void* host, const void* device, uint64_t bytes) {
    FakeContext& copier = FakeOf(context);
    MutexLock lock(copier.fake->mutex_);
    copier.fake->CheckMemoryLocked(device, bytes, "copying from");
    copier.fake->CheckMemoryLocked(host, bytes, "copying to");
    copier.fake->PostLocked(copier, [=, &copier] {
      if (copier.copy_fails) return kCopyError;
      std::memcpy(host, device, bytes);
      return 0;
    });
    return kNcclDone;
  }
  static int32_t GroupStart(NcclContext* context) {
    FakeContext& starter = FakeOf(context);
    MutexLock lock(starter.fake->mutex_);
    if (starter.in_group || starter.posts) starter.fake->MisuseLocked("a group within another");
    starter.in_group = true;
    return kNcclDone;
  }
  static int32_t GroupEnd(NcclContext* context) {
    FakeContext& ender = FakeOf(context);
    MutexLock lock(ender.fake->mutex_);
    ender.in_group = false;
    ender.posts = true;
    ender.asks_left = kAsks;
    return kNcclUnderWay;
  }

  static int32_t Add(NcclContext* context, const FakeOperation& operation, uint64_t send_bytes,
                     uint64_t receive_bytes) {
    FakeContext& adder = FakeOf(context);
    FakeNccl& fake = *adder.fake;
    MutexLock lock(fake.mutex_);
    if (!adder.in_group) fake.MisuseLocked("an operation outside a group");
    fake.CheckMemoryLocked(operation.send, send_bytes, "sending from");
    fake.CheckMemoryLocked(operation.receive, receive_bytes, "receiving into");
    adder.open.operations.push_back(std::make_shared<FakeOperation>(operation));
    return kNcclDone;
  }
  static FakeOperation Made(NcclStep::Kind kind, const void* send, void* receive, NcclRun run) {
    FakeOperation operation;
    operation.kind = kind;
    operation.send = static_cast<const std::byte*>(send);
    operation.receive = static_cast<std::byte*>(receive);
    operation.run = run;
    return operation;
  }
  static int32_t AllReduce(NcclContext* context, const void* send, void* receive, NcclRun run,
                           NcclReduction reduction) {
    FakeOperation made = Made(NcclStep::Kind::kAllReduce, send, receive, run);
    made.reduction = reduction;
    return Add(context, made, FakeBytes(run), FakeBytes(run));
  }
  static int32_t Reduce(NcclContext* context, const void* send, void* receive, NcclRun run,
                        NcclReduction reduction, int32_t root) {
    FakeOperation made = Made(NcclStep::Kind::kReduce, send, receive, run);
    made.reduction = reduction;
    made.peer = root;
    return Add(context, made, FakeBytes(run), FakeOf(context).rank == root ? FakeBytes(run) : 0);
  }
  static int32_t Broadcast(NcclContext* context, const void* send, void* receive, NcclRun run,
                           int32_t root) {
    FakeOperation made = Made(NcclStep::Kind::kBroadcast, send, receive, run);
    made.peer = root;
    return Add(context, made, FakeOf(context).rank == root ? FakeBytes(run) : 0, FakeBytes(run));
  }
  static uint64_t SizeOf(NcclContext* context) {
    return static_cast<uint64_t>(FakeOf(context).comm->size);
  }
  static int32_t AllGather(NcclContext* context, const void* send, void* receive, NcclRun run) {
    return Add(context, Made(NcclStep::Kind::kAllGather, send, receive, run), FakeBytes(run),
               SizeOf(context) * FakeBytes(run));
  }
  static int32_t ReduceScatter(NcclContext* context, const void* send, void* receive, NcclRun run,
                               NcclReduction reduction) {
    FakeOperation made = Made(NcclStep::Kind::kReduceScatter, send, receive, run);
    made.reduction = reduction;
    return Add(context, made, SizeOf(context) * FakeBytes(run), FakeBytes(run));
  }
  static int32_t Send(NcclContext* context, const void* send, NcclRun run, int32_t peer) {
    FakeOperation made = Made(NcclStep::Kind::kSend, send, nullptr, run);
    made.peer = peer;
    return Add(context, made, FakeBytes(run), 0);
  }
  static int32_t Receive(NcclContext* context, void* receive, NcclRun run, int32_t peer) {
    FakeOperation made = Made(NcclStep::Kind::kReceive, nullptr, receive, run);
    made.peer = peer;
    return Add(context, made, 0, FakeBytes(run));
  }

  static int32_t CallThen(NcclContext* context, void (*then)(void*), void* argument) {
    FakeContext& caller = FakeOf(context);
    MutexLock lock(caller.fake->mutex_);
    caller.fake->PostLocked(caller, [=, &fake = *caller.fake] {
      then(argument);
      const Event never;
      if (fake.Lingers()) never.WaitFor(absl::Milliseconds(20));
      return 0;
    });
    return kNcclDone;
  }
  static int32_t StreamState(NcclContext* context) {
    const FakeContext& asked = FakeOf(context);
    MutexLock lock(asked.fake->mutex_);
    if (asked.stream_error != 0) return asked.stream_error;
    return asked.tasks.empty() && !asked.running ? kNcclDone : kNcclUnderWay;
  }
  static int32_t StreamWait(NcclContext* context) {
    FakeContext& waiter = FakeOf(context);
    MutexLock lock(waiter.fake->mutex_);
    while (!waiter.tasks.empty() || waiter.running) waiter.fake->changed_.Wait(waiter.fake->mutex_);
    return waiter.stream_error;
  }
};

FakeNccl::FakeNccl(int devices) : devices_(devices) {
  using F = FakeFunctions;
  table_.self = this;
  table_.error_words = F::ErrorWords;
  table_.nccl_version = F::Version;
  table_.device_count = F::DeviceCount;
  table_.unique_id = F::UniqueId;
  table_.open = F::Open;
  table_.close = F::Close;
  table_.allocate_device = F::Allocate;
  table_.allocate_host = F::Allocate;
  table_.free_device = F::Free;
  table_.free_host = F::Free;
  table_.join = F::Join;
  table_.comm_state = F::CommState;
  table_.leave = F::Leave;
  table_.destroy = F::Destroy;
  table_.abort = F::Abort;
  table_.copy_to_device = F::ToDevice;
  table_.copy_to_host = F::ToHost;
  table_.group_start = F::GroupStart;
  table_.group_end = F::GroupEnd;
  table_.all_reduce = F::AllReduce;
  table_.reduce = F::Reduce;
  table_.broadcast = F::Broadcast;
  table_.all_gather = F::AllGather;
  table_.reduce_scatter = F::ReduceScatter;
  table_.send = F::Send;
  table_.receive = F::Receive;
  table_.call_then = F::CallThen;
  table_.stream_state = F::StreamState;
  table_.stream_wait = F::StreamWait;
  AddLocalFunctions();
}

FakeNccl::~FakeNccl() = default;

}  // namespace cohort
