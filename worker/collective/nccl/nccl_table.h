#pragma once

// The program's view of CUDA and NCCL: a table of functions without any of their types. The
// module libcohort_nccl.so (backend/) fills it, and so do tests, with threads in the place of
// devices. Both sides compile this header, so whoever changes it raises the version.
//
// A context is one rank: a device, a stream of it, and a communicator once it has joined. What is
// posted runs on the device in the order in which it was posted. Only the owner's thread uses a
// context; another may call `abort` and `stream_wait` while the owner waits for it.
//
// A communicator does not block: what starts something may return kNcclUnderWay, and only when
// comm_state has answered kNcclDone is it on the stream. Before that nothing else may be posted.
//
// Beside contexts, of ranks that are processes, there are the GPUs of one process, which one thread
// drives: all of them are there, so these functions block.
//
// Codes: kNcclDone, kNcclUnderWay, or an error, of which error_words tells.

#include <cstddef>
#include <cstdint>

namespace cohort {

inline constexpr uint32_t kNcclTableVersion = 3;
inline constexpr size_t kNcclIdBytes = 128;
// The name of the one function that the module exports: const NcclTable* f().
inline constexpr char kNcclTableSymbol[] = "cohort_nccl_table";

inline constexpr int32_t kNcclDone = 0;
inline constexpr int32_t kNcclUnderWay = 1;

enum class NcclType : int32_t { kBytes, kInt32, kInt64, kFloat32, kFloat64 };
enum class NcclReduction : int32_t { kSum, kProd, kMin, kMax };

struct NcclRun {
  uint64_t count = 0;  // number of elements of the type
  NcclType type = NcclType::kBytes;
};

struct NcclContext;  // the module's
struct NcclLocal;    // the same

struct NcclTable {
  uint32_t version = kNcclTableVersion;
  void* self = nullptr;  // first argument of the functions that take no context

  // Writes the words of `code` into `words`, with a zero at the end. The context, which may be
  // null, may know more.
  void (*error_words)(NcclContext* context, int32_t code, char* words, uint64_t bytes);
  int32_t (*nccl_version)(void* self, int32_t* version);  // 22809: 2.28.9
  int32_t (*device_count)(void* self, int32_t* count);
  int32_t (*unique_id)(void* self, uint8_t* id);  // kNcclIdBytes; needs no device

  int32_t (*open)(void* self, int32_t device, NcclContext** context);
  // Closes a context whose memory has been freed and which has left, was aborted, or never joined.
  void (*close)(NcclContext* context);
  int32_t (*allocate_device)(NcclContext* context, uint64_t bytes, void** memory);
  int32_t (*allocate_host)(NcclContext* context, uint64_t bytes, void** memory);  // pinned
  void (*free_device)(NcclContext* context, void* memory);
  void (*free_host)(NcclContext* context, void* memory);

  int32_t (*join)(NcclContext* context, const uint8_t* id, int32_t rank, int32_t size);
  // Returns the state of the operation that was started last, and any failure since.
  int32_t (*comm_state)(NcclContext* context);
  int32_t (*leave)(NcclContext* context);    // all that was posted has ended; then comm_state
  int32_t (*destroy)(NcclContext* context);  // after it has left
  void (*abort)(NcclContext* context);       // instead: ends what is on the device; may block

  int32_t (*copy_to_device)(NcclContext* context, void* device, const void* host, uint64_t bytes);
  int32_t (*copy_to_host)(NcclContext* context, void* host, const void* device, uint64_t bytes);
  int32_t (*group_start)(NcclContext* context);
  int32_t (*group_end)(NcclContext* context);
  // Collectives, within a group only. `send` and `receive` do not overlap.
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

  // Runs when all that was posted before has ended well; must be short and use nothing of CUDA.
  int32_t (*call_then)(NcclContext* context, void (*then)(void*), void* argument);
  int32_t (*stream_state)(NcclContext* context);  // kNcclUnderWay while something runs
  int32_t (*stream_wait)(NcclContext* context);   // blocks until nothing runs

  // Opens so many GPUs, each once, with a communicator and a stream of each.
  int32_t (*open_local)(void* self, int32_t count, const int32_t* devices, NcclLocal** local);
  // Adds up what each GPU has at `send`, by GPU, into `receive` of the first one, which may be its
  // `send`. No device writes any of it meanwhile. When this has failed nothing but close_local may
  // follow.
  int32_t (*reduce_local)(NcclLocal* local, const void* const* send, void* receive, NcclRun run);
  // Ends what is on the devices.
  void (*close_local)(NcclLocal* local);
};

}  // namespace cohort
