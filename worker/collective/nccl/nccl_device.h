#pragma once

// One rank's GPU: the rank's context in the NcclTable, and the staging memory through which the
// pieces of calls go. Only the processor reads and writes the caller's memory, never the GPU. So
// work on the GPU that does not end cannot write into memory that has been used again. The staging
// memory has several slots, each for one piece. The states of a slot:
//
//   free --Post--> posting --HasPosted, Finish--> under way --the device--> finished --> free
//
// Pieces use the slots in turn, and the GPU finishes them in the same order.

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/nccl/nccl_elements.h"
#include "worker/collective/nccl/nccl_pieces.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// One rank's GPU with its staging memory. Lives on its communicator's thread. Errors of all
// methods: UNAVAILABLE with the words of CUDA or NCCL.
class NcclDevice {
 public:
  static constexpr size_t kSlots = 3;

  struct Options {
    int device = 0;  // number by which CUDA knows the GPU
    int rank = 0;
    // The size of a piece in bytes. kSlots times 2 buffers of this size are in pinned host memory,
    // and as many on the GPU.
    size_t piece_bytes = 0;
    // Called when the GPU has finished a piece. Runs on a thread of CUDA, so it must be short and
    // must not call CUDA.
    std::function<void()> through;
  };

  // Opens the GPU and allocates the staging memory. `table` outlives the result. Errors:
  // FAILED_PRECONDITION if this machine has no such GPU; those of all methods.
  static absl::StatusOr<std::unique_ptr<NcclDevice>> Open(const NcclTable& table, Options options);
  // Closes the GPU. No work may be under way on it.
  ~NcclDevice();

  // Begins to join the communicator of NCCL that has this id, with `size` ranks. The rank has
  // joined when HasPosted() returns true.
  absl::Status Join(const std::array<uint8_t, kNcclIdBytes>& id, int size);
  // Returns true if NCCL has put the operation that was begun last on the GPU, or has joined.
  // Returns an error if an operation has failed.
  absl::StatusOr<bool> HasPosted();

  std::byte* StagedInput(size_t slot) { return slots_[slot].host_in; }
  std::byte* StagedOutput(size_t slot) { return slots_[slot].host_out; }
  // Begin and finish to post a piece that is staged in `slot`. The caller calls Post(), then
  // HasPosted() until it returns true, then Finish().
  absl::Status Post(size_t slot, const NcclPiece& piece, const NcclElements& elements);
  absl::Status Finish(size_t slot, const NcclPiece& piece, const NcclElements& elements);
  // Returns the error of work that is under way on the GPU, or OK.
  absl::Status Check();

  // Aborts the work under way and closes the GPU. Returns false if the work has not ended within
  // `wait`; then the staging memory stays allocated until the work ends, which may be never.
  [[nodiscard]] static bool Abort(std::unique_ptr<NcclDevice> device, absl::Duration wait);

 private:
  struct Slot {
    std::byte* host_in = nullptr;
    std::byte* host_out = nullptr;
    std::byte* device_in = nullptr;
    std::byte* device_out = nullptr;
  };

  NcclDevice(const NcclTable& table, NcclContext* context, Options options);
  absl::Status Allocate();
  absl::Status Status(int32_t code, absl::string_view doing) const;
  int32_t PostStep(const Slot& slot, const NcclStep& step, const NcclElements& elements);
  void Leave();

  const NcclTable& table_;
  NcclContext* const context_;
  const Options options_;
  std::array<Slot, kSlots> slots_;
  bool joined_ = false;  // true from Join() until the rank leaves NCCL or is aborted
};

}  // namespace cohort
