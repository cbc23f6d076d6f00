#include "common/wire/frames/local_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/message.h"
#include "common/wire/payload_assembler.h"

namespace cohort {

namespace {

// The largest payload that travels inside its frame. Copying so few bytes twice through the socket
// is cheaper than sending a shared block and getting the block back.
constexpr size_t kInlineBytesMax = size_t{8} << 10;

// Blocks of the other end that were read are given back with the next frame. If they have more
// bytes than kReleasedBytesMax, a frame of their own gives them back at once.
constexpr size_t kReleasedBytesMax = size_t{32} << 20;

// A ring of kSlots slots stays in the processor's caches. The receiver gives slots back in groups
// of kReleasedPartsMax, before the sender runs out of slots.
constexpr size_t kSlotBytes = size_t{512} << 10;
constexpr size_t kSlots = 8;
constexpr size_t kReleasedPartsMax = kSlots / 4;

void CopyAll(const Payload& payload, std::byte* out) {
  for (const ByteSlice& slice : payload) {
    if (slice.size > 0) std::memcpy(out, slice.data, slice.size);
    out += slice.size;
  }
}

}  // namespace

bool LocalWriter::UseBlocksLocked() const { return options_.blocks && peer_takes_blocks_; }

bool LocalWriter::Send(proto::LocalFrame frame, Payload payload) {
  const size_t bytes = PayloadBytes(payload);
  const size_t copied = BytesToCopy(payload);
  bool blocks = false;
  bool in_place = false;
  bool in_parts = false;
  {
    // The lock is held to choose how the payload travels. Copying the payload, further down, needs
    // no lock.
    MutexLock lock(mutex_);
    if (closed_) return false;
    blocks = UseBlocksLocked();
    // A payload that is partly in shared memory is lent to the other end, unless too many of its
    // bytes must be copied.
    in_place = blocks && copied < bytes && copied <= kWholeBytesMax;
    in_parts = !in_place && bytes > (blocks ? kWholeBytesMax : options_.whole_bytes_max);
    if (in_parts) in_parts_.push_back({std::move(frame), std::move(payload), bytes, 0});
  }
  if (in_place) return SendInPlace(std::move(frame), std::move(payload));
  if (in_parts) return SendParts();
  int new_fd = -1;
  if (bytes > 0 && bytes <= kInlineBytesMax) {
    frame.mutable_payload()->resize(bytes);
    CopyAll(payload, reinterpret_cast<std::byte*>(frame.mutable_payload()->data()));
    payload.clear();
  } else if (bytes > 0 && blocks && PutIntoBlock(payload, bytes, frame, new_fd)) {
    payload.clear();
  }
  SumUp(payload, frame);
  Sent sent;  // sent payloads die after the lock is released
  MutexLock lock(mutex_);
  return WriteLocked(frame, std::move(payload), new_fd, sent);
}

// Adds the checksum of the payload that follows the frame. Runs without the lock, because reading
// the whole payload takes long.
void LocalWriter::SumUp(const Payload& following, proto::LocalFrame& frame) const {
  if (options_.sums == FrameSums::kNone || following.empty()) return;
  frame.set_following_crc(PayloadCrc32c(following));
}

// Sends a payload that is partly in shared memory. The slices in shared memory are lent to the
// other end, and the other slices are copied.
bool LocalWriter::SendInPlace(proto::LocalFrame frame, Payload payload) {
  Payload copied;
  for (const ByteSlice& slice : payload) {
    if (SharedMemoryOf(slice) == nullptr) copied.push_back(slice);
  }
  const size_t bytes = PayloadBytes(copied);
  int new_fd = -1;
  Sent sent;  // sent payloads die after the lock is released
  if (bytes <= kInlineBytesMax) {
    frame.mutable_payload()->resize(bytes);
    CopyAll(copied, reinterpret_cast<std::byte*>(frame.mutable_payload()->data()));
  } else if (!PutIntoBlock(copied, bytes, frame, new_fd)) {
    // There is no block for the slices that must be copied. So the whole payload follows the frame
    // on the socket, including the slices in shared memory.
    MutexLock lock(mutex_);
    return WriteLocked(frame, std::move(payload), new_fd, sent);
  }
  MutexLock lock(mutex_);
  if (!closed_) LendLocked(payload, frame, sent);
  sent.payloads.push_back(std::move(payload));
  return WriteLocked(frame, {}, new_fd, sent);
}

// Writes into the frame where each slice of the payload lies: in lent memory, or at the next
// position of the block that holds the copied slices. For memory that the other end has not mapped
// yet, another frame is sent first, which passes the memory's descriptor.
void LocalWriter::LendLocked(const Payload& payload, proto::LocalFrame& frame, Sent& sent) {
  for (const uint64_t id : lent_.TakeGone()) frame.add_dropped(id);
  // The ids of the memory that this frame lends. Memory in which several slices lie is lent once.
  std::map<const SharedMemory*, uint64_t> lent;
  size_t copied = 0;
  for (const ByteSlice& slice : payload) {
    if (slice.size == 0) continue;
    proto::LocalRange* const range = frame.add_ranges();
    range->set_bytes(slice.size);
    const std::shared_ptr<const SharedMemory> memory = SharedMemoryOf(slice);
    // Copied slices lie one after another in the frame's block. The number 0 stands for the frame's
    // field `payload` instead of a block.
    if (memory == nullptr) {
      range->set_block(frame.block());
      range->set_begin(copied);
      copied += slice.size;
      continue;
    }
    uint64_t& id = lent[memory.get()];
    if (id == 0) {
      const LentMemory::Known known =
          lent_.Lend(memory, slice.owner, [&] { return pool_.NewId(); });
      id = known.id;
      proto::LocalFrame shown;
      shown.set_shown(id);
      if (known.is_new) WriteLocked(shown, {}, memory->fd(), sent);
    }
    range->set_block(id);
    range->set_begin(static_cast<size_t>(slice.data - memory->data()));
  }
}

bool LocalWriter::PutIntoBlock(const Payload& payload, size_t bytes, proto::LocalFrame& frame,
                               int& new_fd) {
  const absl::StatusOr<BlockPool::Lent> lent = pool_.Take(bytes);
  if (!lent.ok()) {
    // Without a block, the caller sends the payload through the socket, which is slower.
    LogNoSharedBlock(lent.status());
    return false;
  }
  CopyAll(payload, lent->data);
  new_fd = lent->fd;
  frame.set_block(lent->id);
  frame.set_block_bytes(bytes);
  frame.set_new_block(new_fd >= 0);
  return true;
}

// Logs that payloads travel through the socket because the system gives no shared memory. One line
// for each connection says so, because every payload may fail in the same way.
void LocalWriter::LogNoSharedBlock(const absl::Status& cause) {
  if (logged_no_block_.exchange(true)) return;
  Log(LogLevel::kWarning, "no_shared_block", {{"error", cause.message()}});
}

// Sends parts of large payloads until all parts are sent or the next part has to wait. Returns
// false if the connection has ended.
bool LocalWriter::SendParts() {
  {
    MutexLock lock(mutex_);
    // Another thread is sending parts, and will also send the parts of the new message.
    if (sending_parts_) return !closed_;
    sending_parts_ = true;
  }
  while (true) {
    Part part;
    Sent sent;  // sent payloads die after the lock is released
    {
      MutexLock lock(mutex_);
      if (!NextPartLocked(part)) {
        sending_parts_ = false;
        sent_.NotifyAll();
        return !closed_;
      }
    }
    if (!part.no_slot.ok()) LogNoSharedBlock(part.no_slot);
    // The part is copied into the slot without the lock, so that other frames can be sent
    // meanwhile.
    if (part.slot != nullptr) {
      CopyAll(part.bytes, part.slot);
      if (options_.moved != nullptr) options_.moved->Add(PayloadBytes(part.bytes));
      part.bytes.clear();
    }
    SumUp(part.bytes, part.frame);
    MutexLock lock(mutex_);
    WriteLocked(part.frame, std::move(part.bytes), part.new_fd, sent);
  }
}

// Prepares the next part of a large payload. Returns false if there is no part, or if the part has
// to wait.
bool LocalWriter::NextPartLocked(Part& part) {
  // Parts wait while other frames are unsent, so that small messages never wait behind queued
  // parts.
  if (closed_ || in_parts_.empty() || !unsent_.empty()) return false;
  InParts& message = in_parts_.front();
  BlockPool::Lent slot;
  if (UseBlocksLocked()) {
    // While the other end holds all slots of the ring, parts wait. TakeNotes goes on with the parts
    // when a slot comes back.
    if (slots_out_.size() >= kSlots) return false;
    if (const absl::StatusOr<BlockPool::Lent> lent = pool_.Take(kSlotBytes); lent.ok()) {
      slot = *lent;
      slots_out_.insert(slot.id);
    } else {
      part.no_slot = lent.status();
    }
  }
  const size_t room = slot.id != 0 ? kSlotBytes : kPartBytes;
  const size_t bytes = std::min(room, message.bytes - message.begun);
  part.bytes = PartOf(message.payload, message.begun, bytes);
  // Only the first part has the kind and the header of the message, and the size of the whole
  // payload.
  if (message.begun == 0) {
    part.frame = std::move(message.frame);
    part.frame.set_whole_bytes(message.bytes);
  }
  if (slot.id != 0) {
    part.slot = slot.data;
    part.new_fd = slot.fd;
    part.frame.set_block(slot.id);
    part.frame.set_block_bytes(bytes);
    part.frame.set_new_block(slot.fd >= 0);
  }
  message.begun += bytes;
  if (message.begun == message.bytes) {
    part.ended = std::move(message.payload);
    in_parts_.pop_front();
  }
  return true;
}

// Puts a frame at the end of the queue and sends as much as the bearer takes. Returns false if the
// connection has ended.
bool LocalWriter::WriteLocked(proto::LocalFrame& frame, Payload following, int passed_fd,
                              Sent& sent) {
  if (closed_) {
    sent.payloads.push_back(std::move(following));
    return false;
  }
  // Every frame also gives back the blocks of the other end that were read since the last frame.
  frame.mutable_released()->Add(released_.begin(), released_.end());
  released_.clear();
  released_bytes_ = 0;
  released_parts_ = 0;
  for (const uint64_t block : pool_.TakeDropped()) frame.add_dropped(block);
  // The first frame tells the other end whether this end takes shared blocks.
  if (!greeted_) frame.set_takes_blocks(options_.blocks);
  greeted_ = true;
  frame.set_following(PayloadBytes(following));
  // The id by which Forget finds the frame: that of its call if the frame is a call whose payload
  // does not travel in parts, else 0.
  const uint64_t call = frame.has_call() && frame.whole_bytes() == 0 ? frame.call().id() : 0;
  unsent_.push_back({WithPrefix(frame, options_.sums), std::move(following), 0, passed_fd, call});
  if (unsent_.size() > 1) return true;  // Writable sends the frame once the bearer has room
  return FlushLocked(sent);
}

// Replaces the unsent payload of a forgotten call by a copy. The payload cannot be dropped: its
// frame says how many bytes follow, and some of the bytes may have been sent.
bool LocalWriter::Forget(uint64_t call) {
  Payload forgotten;  // the payload dies after the lock is released
  MutexLock lock(mutex_);
  for (UnsentFrame& unsent : unsent_) {
    if (unsent.call != call || PayloadBytes(unsent.following) == 0) continue;
    forgotten = std::exchange(unsent.following, CopyOf(unsent.following));
    return true;
  }
  return !options_.bearer.Holds(call);
}

// Passes unsent frames to the bearer until the bearer is full. Returns false if the other end is
// gone, which the bearer also finds out by itself.
bool LocalWriter::FlushLocked(Sent& sent) {
  const absl::StatusOr<bool> starts = options_.bearer.SendFrames(unsent_, sent.payloads);
  if (!starts.ok()) return false;
  if (*starts) sent.bearer = &options_.bearer;
  if (unsent_.empty()) sent_.NotifyAll();
  if (waits_for_room_ == unsent_.empty()) {
    waits_for_room_ = !unsent_.empty();
    options_.bearer.WaitForRoom(waits_for_room_);
  }
  return true;
}

void LocalWriter::Writable() {
  {
    Sent sent;  // sent payloads die after the lock is released
    MutexLock lock(mutex_);
    if (closed_ || !FlushLocked(sent)) return;
  }
  // Parts of large payloads are sent only while no other frame waits for room in the bearer.
  SendParts();
}

bool LocalWriter::TakeNotes(const proto::LocalFrame& frame) {
  bool slot_is_back = false;
  for (const uint64_t block : frame.released()) {
    LentMemory::Owner owner;  // the owner of the lent memory dies after the lock is released
    MutexLock lock(mutex_);
    owner = lent_.GiveBack(block);
    // The other end chose the id. If no block and no memory with this id is lent, the connection
    // ends.
    if (owner == nullptr && !pool_.GiveBack(block)) return false;
    slot_is_back |= slots_out_.erase(block) > 0;
  }
  if (frame.takes_blocks()) {
    MutexLock lock(mutex_);
    peer_takes_blocks_ = true;
  }
  if (slot_is_back) SendParts();
  return true;
}

void LocalWriter::BlockRead(uint64_t block, size_t bytes) {
  Sent sent;  // sent payloads die after the lock is released
  MutexLock lock(mutex_);
  released_.push_back(block);
  released_bytes_ += bytes;
  // Blocks that were read are given back with the next frame. When they have too many bytes, a
  // frame is sent only to give them back.
  if (released_bytes_ > kReleasedBytesMax) ReturnBlocksLocked(sent);
}

void LocalWriter::PartRead(uint64_t block) {
  Sent sent;  // sent payloads die after the lock is released
  MutexLock lock(mutex_);
  released_.push_back(block);
  if (++released_parts_ >= kReleasedPartsMax) ReturnBlocksLocked(sent);
}

void LocalWriter::ReturnBlocksLocked(Sent& sent) {
  // WriteLocked adds the ids of the blocks that were read to this empty frame.
  proto::LocalFrame frame;
  WriteLocked(frame, {}, -1, sent);
}

void LocalWriter::WaitUntilSent(std::chrono::steady_clock::time_point end) {
  MutexLock lock(mutex_);
  while (!closed_ && (sending_parts_ || !unsent_.empty() || !in_parts_.empty())) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !sent_.WaitFor(mutex_, absl::FromChrono(left))) return;
  }
}

void LocalWriter::Close() {
  std::deque<UnsentFrame> unsent;  // `unsent`, `in_parts` and `lent` die after the lock is released
  std::deque<InParts> in_parts;
  std::vector<LentMemory::Owner> lent;
  MutexLock lock(mutex_);
  closed_ = true;
  // Lose marks the lent memory as never to be written again, because the other end may still be
  // reading it.
  lent = lent_.Lose();
  unsent.swap(unsent_);
  in_parts.swap(in_parts_);
  sent_.NotifyAll();
}

}  // namespace cohort
