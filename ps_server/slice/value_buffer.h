#pragma once

// The memory of one page of a slice's value or slot (paged_value.h), which stays readable while it
// is replaced. A reader takes a lease on the current block of memory and may hold the lease for
// long: a transport sends from the block, a checkpoint writes it to a file, a program on the device
// computes with it. A writer that finds the current block leased writes the new value to a spare
// block instead, so a reader never sees a value change; without a lease the writer changes the
// current block in place. Blocks whose readers have left are used again as spares, so no memory is
// allocated in the steady state.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/runtime/update/variable_memory.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The maximum number of spare blocks of a value's page. With more readers at a time, the surplus
// blocks are freed when their readers leave.
inline constexpr size_t kSpareBlocksMax = 4;
// The maximum number of spare blocks of a slot's page: only snapshots read slots, one at a time.
inline constexpr size_t kSlotSpareBlocksMax = 1;

// The current block of a page and its spare blocks. Thread-compatible: the owner of the slice's
// lock calls it; leases end on any thread.
class ValueBuffer {
 public:
  // Makes a page whose first block is `value`, a tensor in `memory`. `memory` outlives the page.
  ValueBuffer(Tensor value, VariableMemory& memory, size_t spares_max = kSpareBlocksMax);

  const Tensor& current() const { return current_->tensor; }

  // Leases the current block: it stays unchanged as long as the result lives.
  std::shared_ptr<const BufferMemory> Lease() const;

  // Returns the block to write the page's next value to: the current block if nobody reads it, else
  // another block with undefined content. The result is valid until Commit.
  Tensor& Next();
  // Returns the block that the last Next() returned.
  Tensor& next() { return next_->tensor; }
  // Makes the block from Next() the current one.
  void Commit();
  // Returns the current block, to be changed in place. If the block is being read, a copy of it
  // becomes current and is returned, and its size is added to `copied_bytes`. The result is valid
  // until the next lease.
  Tensor& InPlace(size_t& copied_bytes) {
    if (!IsFree(*current_)) copied_bytes += Copy();
    return current_->tensor;
  }

  // Returns the bytes of the current block and the spare blocks.
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
  // Returns whether nobody reads the block. The acquire pairs with the release at the end of a
  // lease: the reader's last access to the bytes comes before our first write.
  static bool IsFree(const Block& block) {
    return block.readers.load(std::memory_order_acquire) == 0;
  }
  std::shared_ptr<Block> TakeSpare();
  size_t Copy();

  VariableMemory* memory_;
  size_t spares_max_;
  // The blocks are shared with leases, which may outlive the slice.
  std::shared_ptr<Block> current_;
  std::shared_ptr<Block> next_;
  std::vector<std::shared_ptr<Block>> spares_;
};

}  // namespace cohort
