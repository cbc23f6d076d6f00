#pragma once

// CUDA and NCCL as the executable sees them: a table of functions without any types of CUDA or
// NCCL. The module libcohort_nccl.so (backend/) fills the table; tests fill it with threads in the
// place of GPUs. Both sides compile this header, so a change of the table must raise
// kNcclTableVersion.
//
// A context is one rank: a GPU, a stream on it, and a communicator of NCCL once the rank has
// joined. Work that is posted runs on the GPU in the order of posting. Only the owner's thread uses
// a context; another thread may call `abort` and `stream_wait` while the owner waits for that
// thread.
//
// A communicator does not block: a function that starts an operation may return kNcclUnderWay. The
// operation is on the stream only when comm_state has returned kNcclDone. Before that, nothing else
// may be posted.
//
// Besides contexts, whose ranks are in several processes, the table has functions for the GPUs of
// one process, which one thread drives. These functions block, because no rank can be missing.
//
// Functions that return an int32_t return kNcclDone, kNcclUnderWay, or an error code, which
// error_words puts into words.

#include <cstddef>
#include <cstdint>

namespace cohort {

inline constexpr uint32_t kNcclTableVersion = 3;
inline constexpr size_t kNcclIdBytes = 128;
// The name of the only function that the module exports: const NcclTable* f().
inline constexpr char kNcclTableSymbol[] = "cohort_nccl_table";

inline constexpr int32_t kNcclDone = 0;
inline constexpr int32_t kNcclUnderWay = 1;

enum class NcclType : int32_t { kBytes, kInt32, kInt64, kFloat32, kFloat64 };
enum class NcclReduction : int32_t { kSum, kProd, kMin, kMax };

struct NcclRun {
  uint64_t count = 0;  // number of elements of `type`
  NcclType type = NcclType::kBytes;
};

struct NcclContext;  // the context of one rank; defined by the module
struct NcclLocal;    // the GPUs of one process as one group; defined by the module

struct NcclTable {
  uint32_t version = kNcclTableVersion;
  void* self = nullptr;  // passed as first argument to the functions that take no context

  // Writes the error text of `code` into `words`, which has room for `bytes` bytes, with a zero at
  // the end. `context` may be null; with a context the text may say more.
  void (*error_words)(NcclContext* context, int32_t code, char* words, uint64_t bytes);
  // Gets the version of NCCL: 22809 for version 2.28.9.
  int32_t (*nccl_version)(void* self, int32_t* version);
  int32_t (*device_count)(void* self, int32_t* count);
  // Makes an id of kNcclIdBytes bytes for a group; needs no GPU.
  int32_t (*unique_id)(void* self, uint8_t* id);

  int32_t (*open)(void* self, int32_t device, NcclContext** context);
  // Closes a context. Its memory has been freed, and its rank has left NCCL, was aborted, or never
  // joined.
  void (*close)(NcclContext* context);
  int32_t (*allocate_device)(NcclContext* context, uint64_t bytes, void** memory);
  // Allocates pinned host memory.
  int32_t (*allocate_host)(NcclContext* context, uint64_t bytes, void** memory);
  void (*free_device)(NcclContext* context, void* memory);
  void (*free_host)(NcclContext* context, void* memory);

  int32_t (*join)(NcclContext* context, const uint8_t* id, int32_t rank, int32_t size);
  // Returns the state of the operation that was started last, or the code of a failure since then.
  int32_t (*comm_state)(NcclContext* context);
  // Begins to leave the communicator; all posted work has ended. comm_state tells when the rank has
  // left.
  int32_t (*leave)(NcclContext* context);
  int32_t (*destroy)(NcclContext* context);  // frees the communicator after the rank has left
  // Ends the work on the GPU. Called instead of leave and destroy. May block.
  void (*abort)(NcclContext* context);

  int32_t (*copy_to_device)(NcclContext* context, void* device, const void* host, uint64_t bytes);
  int32_t (*copy_to_host)(NcclContext* context, void* host, const void* device, uint64_t bytes);
  int32_t (*group_start)(NcclContext* context);
  int32_t (*group_end)(NcclContext* context);
  // Post collective operations. Called only between group_start and group_end. `send` and `receive`
  // must not overlap. `root` is the destination of a reduce, or the source of a broadcast.
  int32_t (*all_reduce)(NcclContext* context, const void* send, void* receive, NcclRun run,
                        NcclReduction reduction);
  int32_t (*reduce)(NcclContext* context, const void* send, void* receive, NcclRun run,
                    NcclReduction reduction, int32_t root);
  int32_t (*broadcast)(NcclContext* context, const void* send, void* receive, NcclRun run,
                       int32_t root);
  int32_t (*all_gather)(NcclContext* context, const void* send, void* receive, NcclRun sent);
  int32_t (*reduce_scatter)(NcclContext* context, const void* send, void* receive, NcclRun received,
                            NcclReduction reduction);
  int32_t (*send)(NcclContext* context, const void* send, NcclRun run, int32_t peer);
  int32_t (*receive)(NcclContext* context, void* receive, NcclRun run, int32_t peer);

  // Runs `then` when all work that was posted before has ended well. `then` must be short and must
  // not call CUDA.
  int32_t (*call_then)(NcclContext* context, void (*then)(void*), void* argument);
  // Returns kNcclUnderWay while work runs on the stream.
  int32_t (*stream_state)(NcclContext* context);
  int32_t (*stream_wait)(NcclContext* context);  // blocks until no work runs on the stream

  // Opens `count` different GPUs, each with a communicator and a stream.
  int32_t (*open_local)(void* self, int32_t count, const int32_t* devices, NcclLocal** local);
  // Adds up the arrays send[i] of all GPUs i into `receive` on the first GPU, which may be send[0].
  // These arrays must not change meanwhile. After an error, only close_local may follow.
  int32_t (*reduce_local)(NcclLocal* local, const void* const* send, void* receive, NcclRun run);
  // Ends the work on the GPUs and closes them.
  void (*close_local)(NcclLocal* local);
};

}  // namespace cohort
