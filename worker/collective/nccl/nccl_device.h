#pragma once

// One rank's device: its context in NCCL's table, and the staging memory through which the pieces
// of calls go. The caller's memory is read and written by the program alone, never by the device,
// so that a device that does not end, whatever is done to it, cannot write into memory that is in
// use for something else by then.
//
//   slot: free --Post--> posting --HasPosted, Finish--> under way --the device--> through --> free
//
// Pieces go through slots in turns and come through in that order.

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

// Lives on the thread of its communicator. Errors of all methods: UNAVAILABLE with the words of
// CUDA or NCCL.
class NcclDevice {
 public:
  static constexpr size_t kSlots = 3;

  struct Options {
    int device = 0;  // CUDA's number of it
    int rank = 0;
    // The bytes of a piece on either side: kSlots times 2 of them are pinned, and as many are the
    // device's.
    size_t piece_bytes = 0;
    // Tells that a piece is through. Runs on a thread of CUDA: short, and nothing of CUDA in it.
    std::function<void()> through;
  };

  // Opens a device; the table outlives it.
  static absl::StatusOr<std::unique_ptr<NcclDevice>> Open(const NcclTable& table, Options options);
  // Must not run while anything is under way.
  ~NcclDevice();

  // Begins to join the group; it has when HasPosted.
  absl::Status Join(const std::array<uint8_t, kNcclIdBytes>& id, int size);
  // Returns whether the operation that was begun last is on the device, and nothing has failed.
  absl::StatusOr<bool> HasPosted();

  std::byte* StagedInput(size_t slot) { return slots_[slot].host_in; }
  std::byte* StagedOutput(size_t slot) { return slots_[slot].host_out; }
  // Begins with what is staged. Then HasPosted until it has, then Finish.
  absl::Status Post(size_t slot, const NcclPiece& piece, const NcclElements& elements);
  absl::Status Finish(size_t slot, const NcclPiece& piece, const NcclElements& elements);
  // Checks what is under way.
  absl::Status Check();

  // Ends what is under way, and the device's use. False when that has not ended in time: then it
  // keeps its memory until it does, which may be never.
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
  bool joined_ = false;  // it has joined, and has neither left nor aborted
};

}  // namespace cohort
