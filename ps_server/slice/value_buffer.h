#pragma once

// The memory of one page of a slice's value or slot (paged_value.h). A page stays readable while
// its content is replaced: a reader leases the current block of memory, and may keep the lease for
// a long time, for example while the block is sent, written to a checkpoint or read by a kernel on
// a GPU. If the current block is leased, a writer writes the new content to another block, a spare
// one, so readers never see the content change. If the current block is not leased, the writer
// changes it in place. A replaced block becomes a spare block, which is free when its readers are
// gone, so that usually no memory is allocated.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/runtime/update/variable_memory.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The maximum number of spare blocks of a page of a value. If more replaced blocks than this are
// still being read, the page forgets the oldest, and each forgotten block is freed when its lease
// ends.
inline constexpr size_t kSpareBlocksMax = 4;
// The maximum number of spare blocks of a page of a slot. One spare block is enough, because only
// snapshots read slots, one snapshot at a time.
inline constexpr size_t kSlotSpareBlocksMax = 1;

// The current block of one page and the page's spare blocks. Thread-compatible: all calls are made
// under the slice's lock, but leases may end on any thread.
class ValueBuffer {
 public:
  // Makes a page whose current block is `value`, a tensor in `memory`. `memory` outlives the page.
  ValueBuffer(Tensor value, VariableMemory& memory, size_t spares_max = kSpareBlocksMax);

  const Tensor& current() const { return current_->tensor; }

  // Leases the current block, whose content does not change as long as the returned lease exists.
  std::shared_ptr<const BufferMemory> Lease() const;

  // Returns the block into which the caller is to write the page's next content: the current block
  // if it is not leased, else another block with undefined content. The result is valid until
  // Commit().
  Tensor& Next();
  // Returns the block that the last call of Next() returned.
  Tensor& next() { return next_->tensor; }
  // Makes the block that Next() returned the current block.
  void Commit();
  // Returns the current block for changes in place. If the block is leased, a copy of the block
  // first becomes the current block, and the size of the copy is added to `copied_bytes`. The
  // result is valid until the next lease.
  Tensor& InPlace(size_t& copied_bytes) {
    if (!IsFree(*current_)) copied_bytes += Copy();
    return current_->tensor;
  }

  // Returns the total size of the current block and the spare blocks in bytes.
  size_t resident_bytes() const;

  // Aborts if the current block is also a spare block, if blocks differ in size, if there are more
  // spare blocks than the maximum, or if the method is called between Next() and Commit().
  void CheckInvariants() const;

 private:
  struct Block {
    explicit Block(Tensor tensor_in) : tensor(std::move(tensor_in)) {}
    Tensor tensor;
    std::atomic<int> readers{0};
  };
  // Returns whether no lease on the block exists. The acquire pairs with the release at the end of
  // a lease, so that the reader's last access to the block's bytes comes before a later write.
  static bool IsFree(const Block& block) {
    return block.readers.load(std::memory_order_acquire) == 0;
  }
  std::shared_ptr<Block> TakeSpare();
  size_t Copy();

  VariableMemory* memory_;
  size_t spares_max_;
  // The blocks are shared with leases, which may outlive this object.
  std::shared_ptr<Block> current_;
  std::shared_ptr<Block> next_;
  std::vector<std::shared_ptr<Block>> spares_;
};

}  // namespace cohort
