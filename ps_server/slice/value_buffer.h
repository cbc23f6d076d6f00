#pragma once

// The memory of a page of a slice's value or slot (paged_value.h), readable while it is replaced. A
// reader takes a lease on the current block and may hold it for long (a transport sends from it, a
// checkpoint writes it to a file, a program on the device computes with it). A writer that finds
// the current block leased writes the new value to a spare block instead, so a reader never sees a
// value change under it; without a lease it writes in place. Blocks that readers have left come
// back as spares, so a steady state allocates none.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/runtime/update/variable_memory.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Spare blocks that are kept of a value. More readers than that hold blocks that are freed when the
// reader leaves.
inline constexpr size_t kSpareBlocksMax = 4;
// The spare blocks of a slot: only snapshots read it, one at a time.
inline constexpr size_t kSlotSpareBlocksMax = 1;

// Thread-compatible: the owner of the slice's lock calls it; leases end on any thread.
class ValueBuffer {
 public:
  // Makes a buffer of `value`, which lies in `memory`, which outlives this.
  ValueBuffer(Tensor value, VariableMemory& memory, size_t spares_max = kSpareBlocksMax);

  const Tensor& current() const { return current_->tensor; }

  // Keeps the current block unchanged as long as the result lives.
  std::shared_ptr<const BufferMemory> Lease() const;

  // Returns the block to write the next value to: the current one if nobody reads it, else another
  // one with undefined content. Valid until Commit.
  Tensor& Next();
  // Returns the block that Next returned.
  Tensor& next() { return next_->tensor; }
  // Makes the block from Next current.
  void Commit();
  // Returns the current block, to be changed in place; if it is being read, a copy of it, which is
  // current from now on. Adds the bytes that were copied. Valid until the next lease.
  Tensor& InPlace(size_t& copied_bytes) {
    if (!IsFree(*current_)) copied_bytes += Copy();
    return current_->tensor;
  }

  // Returns the bytes of all blocks.
  size_t resident_bytes() const;

  // Aborts unless the current block is no spare one, and all have one size; not between Next and
  // Commit.
  void CheckInvariants() const;

 private:
  struct Block {
    explicit Block(Tensor tensor_in) : tensor(std::move(tensor_in)) {}
    Tensor tensor;
    std::atomic<int> readers{0};
  };
  // Acquire pairs with the release of a lease's end: the reader's last look at the bytes is before
  // our first write.
  static bool IsFree(const Block& block) {
    return block.readers.load(std::memory_order_acquire) == 0;
  }
  std::shared_ptr<Block> TakeSpare();
  size_t Copy();

  VariableMemory* memory_;
  size_t spares_max_;
  // Shared with leases, which may outlive the slice.
  std::shared_ptr<Block> current_;
  std::shared_ptr<Block> next_;
  std::vector<std::shared_ptr<Block>> spares_;
};

}  // namespace cohort
