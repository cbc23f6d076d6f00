#include "ps_server/slice/value_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

ValueBuffer::ValueBuffer(Tensor value, VariableMemory& memory, size_t spares_max)
    : memory_(&memory),
      spares_max_(spares_max),
      current_(std::make_shared<Block>(std::move(value))) {}

std::shared_ptr<const BufferMemory> ValueBuffer::Lease() const {
  struct LeaseHolder : public BufferMemory {
    explicit LeaseHolder(std::shared_ptr<Block> block_in) : block(std::move(block_in)) {
      // Relaxed order is enough, because the lease begins under the slice's lock, under which a
      // writer later reads the number of readers.
      block->readers.fetch_add(1, std::memory_order_relaxed);
    }
    ~LeaseHolder() override { block->readers.fetch_sub(1, std::memory_order_release); }
    LeaseHolder(const LeaseHolder&) = delete;
    LeaseHolder& operator=(const LeaseHolder&) = delete;
    bool writable() const override { return false; }
    const std::shared_ptr<Block> block;
  };
  return std::make_shared<const LeaseHolder>(current_);
}

Tensor& ValueBuffer::Next() {
  next_ = IsFree(*current_) ? current_ : TakeSpare();
  return next_->tensor;
}

std::shared_ptr<ValueBuffer::Block> ValueBuffer::TakeSpare() {
  const auto found = std::find_if(spares_.begin(), spares_.end(),
                                  [](const auto& spare) { return IsFree(*spare); });
  if (found == spares_.end()) {
    // All spare blocks are being read. The writer allocates a new block, because it must not wait
    // for readers.
    const Tensor& like = current_->tensor;
    absl::StatusOr<std::shared_ptr<Buffer>> buffer = memory_->Allocate(like.num_bytes());
    COHORT_CHECK(buffer.ok(), buffer.status().ToString().c_str());
    return std::make_shared<Block>(Tensor(like.dtype(), like.shape(), *std::move(buffer), 0));
  }
  std::shared_ptr<Block> spare = std::move(*found);
  spares_.erase(found);
  return spare;
}

void ValueBuffer::Commit() {
  const InvariantsAfter check(*this);
  std::swap(current_, next_);
  if (next_ != current_) {
    // If the maximum number of spare blocks is reached, the oldest is dropped. If the dropped block
    // is still leased, its memory is freed when the lease ends.
    if (spares_.size() == spares_max_) spares_.erase(spares_.begin());
    spares_.push_back(std::move(next_));
  }
  next_.reset();
}

size_t ValueBuffer::Copy() {
  const size_t bytes = current_->tensor.num_bytes();
  // Copy() is called only while the current block is leased, so Next() returns a different block.
  std::memcpy(Next().mutable_raw(), current_->tensor.raw(), bytes);
  Commit();
  return bytes;
}

size_t ValueBuffer::resident_bytes() const {
  return (1 + spares_.size()) * current_->tensor.num_bytes();
}

void ValueBuffer::CheckInvariants() const {
  COHORT_CHECK(current_ != nullptr && next_ == nullptr, "no block is written between two calls");
  COHORT_CHECK(spares_.size() <= spares_max_, "at most spares_max_ spare blocks are kept");
  for (const auto& spare : spares_) {
    COHORT_CHECK(spare != nullptr && spare != current_, "a spare block is not the current one");
    COHORT_CHECK(spare->tensor.num_bytes() == current_->tensor.num_bytes(),
                 "blocks of a page have one size");
  }
}

}  // namespace cohort
