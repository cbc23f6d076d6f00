// The module libcohort_nccl.so, the only code that is compiled against CUDA and NCCL. It has no
// logic that could be elsewhere, because it runs only on machines with a GPU.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

static_assert(kNcclIdBytes == NCCL_UNIQUE_ID_BYTES);

struct NcclContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
};

struct NcclLocal {
  std::vector<NcclContext> ranks;
};

namespace {

// Offsets that are added to the error codes of CUDA and of NCCL, so that one number tells both
// apart.
constexpr int32_t kCudaErrors = 1'000'000;
constexpr int32_t kNcclErrors = 2'000'000;

int32_t Code(cudaError_t error) {
  if (error == cudaSuccess) return kNcclDone;
  return error == cudaErrorNotReady ? kNcclUnderWay : kCudaErrors + static_cast<int32_t>(error);
}

int32_t Code(ncclResult_t result) {
  if (result == ncclSuccess) return kNcclDone;
  return result == ncclInProgress ? kNcclUnderWay : kNcclErrors + static_cast<int32_t>(result);
}

// Makes the context's GPU the current one of this thread: CUDA has a current GPU for each thread,
// and two threads may use a context.
int32_t Enter(const NcclContext* context) { return Code(cudaSetDevice(context->device)); }

ncclDataType_t TypeOf(NcclRun run) {
  switch (run.type) {
    case NcclType::kBytes:
      return ncclUint8;
    case NcclType::kInt32:
      return ncclInt32;
    case NcclType::kInt64:
      return ncclInt64;
    case NcclType::kFloat32:
      return ncclFloat32;
    case NcclType::kFloat64:
      return ncclFloat64;
  }
  return ncclNumTypes;  // an invalid type, which NCCL refuses
}

ncclRedOp_t OpOf(NcclReduction reduction) {
  switch (reduction) {
    case NcclReduction::kSum:
      return ncclSum;
    case NcclReduction::kProd:
      return ncclProd;
    case NcclReduction::kMin:
      return ncclMin;
    case NcclReduction::kMax:
      return ncclMax;
  }
  return ncclNumOps;
}

void ErrorWords(NcclContext* context, int32_t code, char* words, uint64_t bytes) {
  if (code < kNcclErrors) {
    const auto error = static_cast<cudaError_t>(code - kCudaErrors);
    std::snprintf(words, bytes, "CUDA: %s (%d)", cudaGetErrorString(error),
                  static_cast<int>(error));
    return;
  }
  const auto result = static_cast<ncclResult_t>(code - kNcclErrors);
  const char* const more = ncclGetLastError(context == nullptr ? nullptr : context->comm);
  std::snprintf(words, bytes, "NCCL: %s (%d)%s%s", ncclGetErrorString(result),
                static_cast<int>(result), more != nullptr && *more != 0 ? ": " : "",
                more != nullptr ? more : "");
}

int32_t NcclVersion(void*, int32_t* version) { return Code(ncclGetVersion(version)); }

int32_t DeviceCount(void*, int32_t* count) {
  *count = 0;
  return Code(cudaGetDeviceCount(count));
}

int32_t UniqueId(void*, uint8_t* id) {
  ncclUniqueId made;
  const ncclResult_t result = ncclGetUniqueId(&made);
  if (result == ncclSuccess) std::memcpy(id, made.internal, kNcclIdBytes);
  return Code(result);
}

int32_t Open(void*, int32_t device, NcclContext** context) {
  auto* const opened = new (std::nothrow) NcclContext{device};
  if (opened == nullptr) return Code(cudaErrorMemoryAllocation);
  int32_t code = Enter(opened);
  if (code == kNcclDone) {
    code = Code(cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking));
  }
  if (code == kNcclDone) {
    *context = opened;
  } else {
    delete opened;
  }
  return code;
}

void Close(NcclContext* context) {
  if (Enter(context) == kNcclDone) cudaStreamDestroy(context->stream);
  delete context;
}

int32_t AllocateDevice(NcclContext* context, uint64_t bytes, void** memory) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(cudaMalloc(memory, bytes)) : code;
}

int32_t AllocateHost(NcclContext* context, uint64_t bytes, void** memory) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(cudaHostAlloc(memory, bytes, cudaHostAllocDefault)) : code;
}

void FreeDevice(NcclContext* context, void* memory) {
  if (Enter(context) == kNcclDone) cudaFree(memory);
}

void FreeHost(NcclContext* context, void* memory) {
  if (Enter(context) == kNcclDone) cudaFreeHost(memory);
}

int32_t Join(NcclContext* context, const uint8_t* id, int32_t rank, int32_t size) {
  const int32_t code = Enter(context);
  if (code != kNcclDone) return code;
  ncclUniqueId unique;
  std::memcpy(unique.internal, id, kNcclIdBytes);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // not blocking, so that a rank that waits for a lost rank can abort
  return Code(ncclCommInitRankConfig(&context->comm, size, unique, rank, &config));
}

int32_t CommState(NcclContext* context) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(context->comm, &state);
  return Code(asked == ncclSuccess ? state : asked);
}

int32_t Leave(NcclContext* context) {
  int32_t code = Enter(context);
  if (code == kNcclDone) code = Code(ncclCommFinalize(context->comm));
  return code;
}

int32_t Destroy(NcclContext* context) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(ncclCommDestroy(context->comm)) : code;
}

void Abort(NcclContext* context) {
  if (context->comm == nullptr || Enter(context) != kNcclDone) return;
  ncclCommAbort(context->comm);  // the communicator is freed even on an error
  context->comm = nullptr;
}

int32_t CopyToDevice(NcclContext* context, void* device, const void* host, uint64_t bytes) {
  const int32_t code = Enter(context);
  if (code != kNcclDone) return code;
  return Code(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, context->stream));
}

int32_t CopyToHost(NcclContext* context, void* host, const void* device, uint64_t bytes) {
  const int32_t code = Enter(context);
  if (code != kNcclDone) return code;
  return Code(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, context->stream));
}

int32_t GroupStart(NcclContext* context) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(ncclGroupStart()) : code;
}

int32_t GroupEnd(NcclContext*) { return Code(ncclGroupEnd()); }

int32_t AllReduce(NcclContext* context, const void* send, void* receive, NcclRun run,
                  NcclReduction reduction) {
  return Code(ncclAllReduce(send, receive, run.count, TypeOf(run), OpOf(reduction), context->comm,
                            context->stream));
}

int32_t Reduce(NcclContext* context, const void* send, void* receive, NcclRun run,
               NcclReduction reduction, int32_t root) {
  return Code(ncclReduce(send, receive, run.count, TypeOf(run), OpOf(reduction), root,
                         context->comm, context->stream));
}

int32_t Broadcast(NcclContext* context, const void* send, void* receive, NcclRun run,
                  int32_t root) {
  return Code(
      ncclBroadcast(send, receive, run.count, TypeOf(run), root, context->comm, context->stream));
}

int32_t AllGather(NcclContext* context, const void* send, void* receive, NcclRun sent) {
  return Code(
      ncclAllGather(send, receive, sent.count, TypeOf(sent), context->comm, context->stream));
}

int32_t ReduceScatter(NcclContext* context, const void* send, void* receive, NcclRun received,
                      NcclReduction reduction) {
  return Code(ncclReduceScatter(send, receive, received.count, TypeOf(received), OpOf(reduction),
                                context->comm, context->stream));
}

int32_t Send(NcclContext* context, const void* send, NcclRun run, int32_t peer) {
  return Code(ncclSend(send, run.count, TypeOf(run), peer, context->comm, context->stream));
}

int32_t Receive(NcclContext* context, void* receive, NcclRun run, int32_t peer) {
  return Code(ncclRecv(receive, run.count, TypeOf(run), peer, context->comm, context->stream));
}

int32_t CallThen(NcclContext* context, void (*then)(void*), void* argument) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(cudaLaunchHostFunc(context->stream, then, argument)) : code;
}

int32_t StreamState(NcclContext* context) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(cudaStreamQuery(context->stream)) : code;
}

int32_t StreamWait(NcclContext* context) {
  const int32_t code = Enter(context);
  return code == kNcclDone ? Code(cudaStreamSynchronize(context->stream)) : code;
}

void CloseLocal(NcclLocal* local) {
  for (NcclContext& rank : local->ranks) {
    Abort(&rank);
    if (rank.stream != nullptr && Enter(&rank) == kNcclDone) cudaStreamDestroy(rank.stream);
  }
  delete local;
}

int32_t OpenLocal(void*, int32_t count, const int32_t* devices, NcclLocal** local) {
  auto* const opened = new (std::nothrow) NcclLocal;
  if (opened == nullptr) return Code(cudaErrorMemoryAllocation);
  std::vector<ncclComm_t> comms(static_cast<size_t>(count));
  int32_t code = Code(ncclCommInitAll(comms.data(), count, devices));
  for (size_t i = 0; i < comms.size(); ++i) {
    opened->ranks.push_back({devices[i], nullptr, comms[i]});
  }
  for (NcclContext& rank : opened->ranks) {
    if (code == kNcclDone) code = Enter(&rank);
    if (code != kNcclDone) break;
    code = Code(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
  }
  // On an error, CloseLocal() frees the communicators and streams that were made.
  if (code == kNcclDone) {
    *local = opened;
  } else {
    CloseLocal(opened);
  }
  return code;
}

int32_t ReduceLocal(NcclLocal* local, const void* const* send, void* receive, NcclRun run) {
  int32_t code = Code(ncclGroupStart());
  if (code != kNcclDone) return code;
  for (size_t i = 0; i < local->ranks.size() && code == kNcclDone; ++i) {
    code = Reduce(&local->ranks[i], send[i], i == 0 ? receive : nullptr, run, NcclReduction::kSum,
                  /*root=*/0);
  }
  // The group of operations is ended even if one has failed.
  const int32_t ended = Code(ncclGroupEnd());
  if (code == kNcclDone) code = ended;
  // The sum is complete when the work on the streams of all GPUs has ended.
  for (size_t i = 0; i < local->ranks.size() && code == kNcclDone; ++i) {
    code = StreamWait(&local->ranks[i]);
    if (code == kNcclDone) code = CommState(&local->ranks[i]);
  }
  return code;
}

NcclTable MakeTable() {
  NcclTable table;
  table.error_words = ErrorWords;
  table.nccl_version = NcclVersion;
  table.device_count = DeviceCount;
  table.unique_id = UniqueId;
  table.open = Open;
  table.close = Close;
  table.allocate_device = AllocateDevice;
  table.allocate_host = AllocateHost;
  table.free_device = FreeDevice;
  table.free_host = FreeHost;
  table.join = Join;
  table.comm_state = CommState;
  table.leave = Leave;
  table.destroy = Destroy;
  table.abort = Abort;
  table.copy_to_device = CopyToDevice;
  table.copy_to_host = CopyToHost;
  table.group_start = GroupStart;
  table.group_end = GroupEnd;
  table.all_reduce = AllReduce;
  table.reduce = Reduce;
  table.broadcast = Broadcast;
  table.all_gather = AllGather;
  table.reduce_scatter = ReduceScatter;
  table.send = Send;
  table.receive = Receive;
  table.call_then = CallThen;
  table.stream_state = StreamState;
  table.stream_wait = StreamWait;
  table.open_local = OpenLocal;
  table.reduce_local = ReduceLocal;
  table.close_local = CloseLocal;
  return table;
}

}  // namespace
}  // namespace cohort

extern "C" __attribute__((visibility("default"))) const cohort::NcclTable* cohort_nccl_table() {
  static const cohort::NcclTable table = cohort::MakeTable();
  return &table;
}
