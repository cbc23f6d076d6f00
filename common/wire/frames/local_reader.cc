#include "common/wire/frames/local_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/local_socket.h"

namespace cohort {

namespace {

// The most bytes that one read of the socket returns.
constexpr size_t kReadBytes = size_t{64} << 10;
// The most bytes of a read that begins after a large payload. The number is small, because the read
// may also return bytes of the next payload, which must then be copied into that payload's memory.
constexpr size_t kHeadBytes = size_t{1} << 10;
// The most bytes that a frame has beside its message: kind, ids and texts.
constexpr size_t kFrameOverheadBytesMax = size_t{1} << 20;
// The most descriptors that may wait for their frames. One read of the socket may return
// descriptors before their frames, but never so many.
constexpr size_t kPassedMax = 64;

absl::Status Malformed(absl::string_view what) {
  return MalformedMessage(absl::StrCat("malformed frame: ", what));
}

bool HasKind(const proto::LocalFrame& frame) {
  return frame.kind_case() != proto::LocalFrame::KIND_NOT_SET;
}

ByteSlice SliceOf(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto* const data = reinterpret_cast<const std::byte*>(owner->data());
  const size_t size = owner->size();
  return ByteSlice{std::move(owner), data, size};
}

// Returns the first `size` bytes of `buffer` as a slice that also has the Buffer, so that a tensor
// may keep the Buffer instead of copying.
ByteSlice SliceOf(std::shared_ptr<Buffer> buffer, size_t size) {
  const std::byte* const data = buffer->data();
  return ByteSlice{buffer, data, size, std::move(buffer)};
}

}  // namespace

// Keeps a block of shared memory, which the other end made, reserved for a reader: the other end
// writes to the block again only after the BlockLease is gone. Thread-safe.
class LocalReader::BlockLease {
 public:
  BlockLease(std::weak_ptr<BlockReturn> to, uint64_t block, std::shared_ptr<const Mapping> memory)
      : to_(std::move(to)), block_(block), memory_(std::move(memory)) {}
  // After the connection has ended, the block is not given back, because the other end no longer
  // writes to blocks of this connection.
  ~BlockLease() {
    if (const auto to = to_.lock()) to->BlockRead(block_, memory_->size());
  }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

 private:
  const std::weak_ptr<BlockReturn> to_;
  const uint64_t block_;
  const std::shared_ptr<const Mapping> memory_;
};

LocalReader::LocalReader(Options options)
    : options_(options),
      frame_bytes_max_(options.message_bytes_max + kFrameOverheadBytesMax),
      buffer_(kReadBytes),
      pool_(options.pool != nullptr ? options.pool : std::make_shared<ReceivePool>()),
      parts_(options.message_bytes_max, pool_) {}

absl::Status LocalReader::ReadSome(const UniqueFd& socket, const Sinks& sinks) {
  if (behind_ == nullptr) {
    RETURN_IF_ERROR(ReadFrames(socket, sinks));
    if (behind_ == nullptr) return absl::OkStatus();
  }
  return ReadBehind(socket, sinks);
}

absl::Status LocalReader::ReadFrames(const UniqueFd& socket, const Sinks& sinks) {
  std::vector<UniqueFd> passed;
  const auto place = absl::MakeSpan(buffer_).subspan(0, bulky_ ? kHeadBytes : kReadBytes);
  ASSIGN_OR_RETURN(const size_t count, ReceiveSome(socket, place, passed));
  bytes_taken_ += count;
  received_.append(place.data(), count);
  for (UniqueFd& fd : passed) passed_.push_back(std::move(fd));
  // The limit keeps a peer from using up this process's descriptors.
  if (passed_.size() > kPassedMax) return Malformed("descriptors that no frame is for");
  return TakeBytes(sinks);
}

// Reads the payload of the current frame from the socket straight into the payload's final memory.
absl::Status LocalReader::ReadBehind(const UniqueFd& socket, const Sinks& sinks) {
  std::vector<UniqueFd> passed;
  RETURN_IF_ERROR(FillBehind([&](absl::Span<std::byte> memory) -> absl::StatusOr<size_t> {
    // The read is short, because other threads can use the processor between short system calls.
    ASSIGN_OR_RETURN(const size_t count,
                     ReceiveSome(socket,
                                 absl::MakeSpan(reinterpret_cast<char*>(memory.data()),
                                                std::min(memory.size(), kSystemCallBytesMax)),
                                 passed));
    bytes_taken_ += count;
    return count;
  }));
  // The other end passes a descriptor with the first byte of a frame, so no descriptor may arrive
  // within a payload.
  if (!passed.empty()) return Malformed("a descriptor in the middle of a payload");
  return behind_->left.empty() ? EndBehind(sinks) : absl::OkStatus();
}

absl::Status LocalReader::FillBehind(
    absl::FunctionRef<absl::StatusOr<size_t>(absl::Span<std::byte> memory)> write) {
  Behind& behind = *behind_;
  absl::StatusOr<size_t> count = 0;
  const auto fill = [&](absl::Span<std::byte>) {
    count = write(behind.left);
    // The payload's checksum is computed now, while the bytes are in the processor's cache.
    if (!count.ok() || options_.sums == FrameSums::kNone) return;
    behind.crc = ExtendCrc32c(
        behind.crc, absl::string_view(reinterpret_cast<const char*>(behind.left.data()), *count));
  };
  if (behind.place == nullptr) {
    fill({});
  } else if (!behind.place->Use(fill)) {
    // The handler has revoked its memory for the payload (ReceivePlace). The rest of the payload
    // must still be read from the socket, so it is read into memory that nobody uses.
    behind.place.reset();
    behind.revoked = true;
    behind.own = pool_->Take(behind.left.size());
    behind.left = absl::MakeSpan(behind.own->data(), behind.left.size());
    fill({});
  }
  if (count.ok()) behind.left.remove_prefix(*count);
  return count.status();
}

absl::Status LocalReader::TakeBytes(const Sinks& sinks) {
  absl::string_view bytes = received_;
  while (true) {
    if (behind_ != nullptr) {
      // `received_` may hold the start of a payload, if one read returned it together with its
      // frame.
      RETURN_IF_ERROR(FillBehind([&](absl::Span<std::byte> memory) {
        const size_t count = std::min(bytes.size(), memory.size());
        if (count > 0) std::memcpy(memory.data(), bytes.data(), count);
        bytes.remove_prefix(count);
        return count;
      }));
      if (!behind_->left.empty()) break;
      RETURN_IF_ERROR(EndBehind(sinks));
    }
    ASSIGN_OR_RETURN(const bool taken, TakeFirstFrame(bytes, sinks));
    if (!taken) break;
  }
  // An incomplete frame at the end of `received_` stays there until the next read.
  received_.erase(0, received_.size() - bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<bool> LocalReader::TakeFirstFrame(absl::string_view& bytes, const Sinks& sinks) {
  const size_t prefix_bytes = FramePrefixBytes(options_.sums);
  if (bytes.size() < prefix_bytes) return false;
  const FramePrefix prefix = ReadFramePrefix(bytes, options_.sums);
  if (!prefix.intact) return Malformed("the CRC-32C of its length differs");
  const size_t size = prefix.frame_bytes;
  // The frame's size is checked before the reader waits for the rest of the frame.
  if (size > frame_bytes_max_) return Malformed(absl::StrCat(size, " bytes"));
  if (bytes.size() - prefix_bytes < size) return false;
  ASSIGN_OR_RETURN(proto::LocalFrame frame, ParseFrame(prefix, bytes.substr(prefix_bytes, size)));
  bytes.remove_prefix(prefix_bytes + size);
  RETURN_IF_ERROR(TakeFrame(std::move(frame), sinks));
  return true;
}

absl::Status LocalReader::Take(const Payload& bytes, const Sinks& sinks) {
  keeps_ = true;
  bytes_taken_ += PayloadBytes(bytes);
  for (const ByteSlice& slice : bytes) {
    absl::string_view left(reinterpret_cast<const char*>(slice.data), slice.size);
    while (!left.empty()) {
      RETURN_IF_ERROR(behind_ != nullptr ? TakeBehind(slice, left, sinks) : TakeHead(left, sinks));
    }
  }
  return absl::OkStatus();
}

absl::Status LocalReader::TakeHead(absl::string_view& bytes, const Sinks& sinks) {
  if (received_.empty()) {
    ASSIGN_OR_RETURN(const bool taken, TakeFirstFrame(bytes, sinks));
    if (taken) return absl::OkStatus();
    received_.assign(bytes.data(), bytes.size());
    bytes = {};
    return absl::OkStatus();
  }
  // Only the bytes that the frame still lacks are copied into `received_`: first its prefix, which
  // says how long the frame is.
  size_t whole = FramePrefixBytes(options_.sums);
  if (received_.size() >= whole) whole += ReadFramePrefix(received_, options_.sums).frame_bytes;
  const size_t count = std::min(whole - received_.size(), bytes.size());
  received_.append(bytes.data(), count);
  bytes.remove_prefix(count);
  absl::string_view frame = received_;
  ASSIGN_OR_RETURN(const bool taken, TakeFirstFrame(frame, sinks));
  if (taken) received_.clear();
  return absl::OkStatus();
}

absl::Status LocalReader::TakeBehind(const ByteSlice& slice, absl::string_view& bytes,
                                     const Sinks& sinks) {
  Behind& behind = *behind_;
  if (behind.kept) {
    const absl::string_view piece = bytes.substr(0, behind.missing);
    if (options_.sums != FrameSums::kNone) behind.crc = ExtendCrc32c(behind.crc, piece);
    behind.pieces.push_back(
        {slice.owner, reinterpret_cast<const std::byte*>(piece.data()), piece.size()});
    behind.missing -= piece.size();
    bytes.remove_prefix(piece.size());
    return behind.missing == 0 ? EndBehind(sinks) : absl::OkStatus();
  }
  RETURN_IF_ERROR(FillBehind([&](absl::Span<std::byte> memory) {
    const size_t count = std::min(bytes.size(), memory.size());
    if (count > 0) std::memcpy(memory.data(), bytes.data(), count);
    bytes.remove_prefix(count);
    return count;
  }));
  return behind.left.empty() ? EndBehind(sinks) : absl::OkStatus();
}

absl::StatusOr<proto::LocalFrame> LocalReader::ParseFrame(const FramePrefix& prefix,
                                                          absl::string_view bytes) const {
  if (options_.sums != FrameSums::kNone && Crc32c(bytes) != prefix.frame_crc) {
    return Malformed("its CRC-32C differs: bytes changed on the way");
  }
  proto::LocalFrame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Malformed("no message");
  }
  // A frame with ended_because says that the other end closes the connection, because it could not
  // read what this end sent.
  if (!frame.ended_because().empty()) {
    return MalformedMessage(
        absl::StrCat("the other end could not read what was sent: ", frame.ended_because()));
  }
  return frame;
}

absl::Status LocalReader::TakeFrame(proto::LocalFrame frame, const Sinks& sinks) {
  // What the frame says about blocks is handled first, because the frame may give back blocks for
  // which this end's writer waits.
  if (!sinks.notes(frame)) return Malformed("its notes about blocks");
  for (const uint64_t block : frame.dropped()) mapped_.erase(block);
  const bool has_block = frame.block() != 0 || frame.shown() != 0 || frame.ranges_size() > 0;
  // The descriptors of new blocks arrive in the order of the frames that name these blocks.
  if (!options_.blocks && has_block) return Malformed("a block, which nobody asked for");
  if (frame.shown() != 0) RETURN_IF_ERROR(MapBlock(frame.shown()));
  if (frame.new_block()) RETURN_IF_ERROR(MapBlock(frame.block()));
  if (frame.ranges_size() > 0) return TakeRanges(std::move(frame), sinks);
  if ((frame.block() != 0) + (frame.following() != 0) + !frame.payload().empty() > 1) {
    return Malformed("two payloads");
  }
  if (frame.whole_bytes() != 0) RETURN_IF_ERROR(BeginParts(frame));
  bulky_ = frame.following() >= kReadBytes;
  if (frame.following() != 0) return BeginBehind(std::move(frame), sinks);
  return HasKind(frame) ? TakeMessage(std::move(frame), sinks) : TakePart(frame, sinks);
}

absl::Status LocalReader::MapBlock(uint64_t block) {
  if (passed_.empty()) return Malformed("a block without its descriptor");
  // The size of the mapping is limited, because the other end chose the size of the block.
  ASSIGN_OR_RETURN(Mapping memory, MapSharedBlock(passed_.front(), frame_bytes_max_));
  passed_.pop_front();
  mapped_[block] = std::make_shared<const Mapping>(std::move(memory));
  return absl::OkStatus();
}

// Returns the payload in a frame's block, but does not reserve the block (see Lease). The slice
// keeps the block mapped, but the other end may write to the block again once the block is given
// back.
absl::StatusOr<ByteSlice> LocalReader::BlockBytes(const proto::LocalFrame& frame) const {
  const auto found = mapped_.find(frame.block());
  if (found == mapped_.end()) return Malformed(absl::StrCat("unknown block ", frame.block()));
  const std::shared_ptr<const Mapping>& memory = found->second;
  // The other end wrote the number `block_bytes`, which may exceed the size of the block.
  if (frame.block_bytes() > memory->size()) {
    return Malformed(absl::StrCat(frame.block_bytes(), " bytes in a block of ", memory->size()));
  }
  return ByteSlice{memory, memory->data(), frame.block_bytes()};
}

absl::StatusOr<ByteSlice> LocalReader::Lease(uint64_t block, const Sinks& sinks) const {
  const auto found = mapped_.find(block);
  if (found == mapped_.end()) return Malformed(absl::StrCat("unknown block ", block));
  const std::shared_ptr<const Mapping>& memory = found->second;
  return ByteSlice{std::make_shared<const BlockLease>(sinks.blocks, block, memory), memory->data(),
                   memory->size()};
}

absl::Status LocalReader::TakeMessage(proto::LocalFrame frame, const Sinks& sinks) {
  Payload payload;
  if (frame.block() != 0) {
    ASSIGN_OR_RETURN(const ByteSlice bytes, BlockBytes(frame));
    ASSIGN_OR_RETURN(ByteSlice lease, Lease(frame.block(), sinks));
    // The slice covers only the bytes of the payload, which may be fewer than the bytes of the
    // block.
    lease.size = bytes.size;
    payload.push_back(std::move(lease));
  } else if (!frame.payload().empty()) {
    payload.push_back(SliceOf(std::move(*frame.mutable_payload())));
  }
  return Give(std::move(frame), std::move(payload), sinks);
}

absl::Status LocalReader::TakeRanges(proto::LocalFrame frame, const Sinks& sinks) {
  if (!HasKind(frame) || frame.following() != 0 || frame.whole_bytes() != 0 ||
      frame.ranges_size() > static_cast<int>(kRangesMax)) {
    return Malformed("ranges of no message");
  }
  // The blocks that the frame's ranges name, by id, each with one BlockLease. So a block that
  // several ranges name is given back once.
  std::map<uint64_t, ByteSlice> whole;
  // Block 0 stands for the payload inside the frame.
  whole[0] = SliceOf(std::move(*frame.mutable_payload()));
  Payload payload;
  size_t bytes = 0;
  for (const proto::LocalRange& range : frame.ranges()) {
    ByteSlice& block = whole[range.block()];
    if (block.owner == nullptr) {
      ASSIGN_OR_RETURN(block, Lease(range.block(), sinks));
    }
    // The check subtracts, because a sum of two numbers from the other end may overflow.
    if (range.begin() > block.size || range.bytes() > block.size - range.begin()) {
      return Malformed(absl::StrCat("a range outside its block of ", block.size, " bytes"));
    }
    bytes += range.bytes();
    if (bytes > options_.message_bytes_max) return Malformed("ranges of too many bytes");
    payload.push_back({block.owner, block.data + range.begin(), range.bytes()});
  }
  // From here on, only the slices of the payload hold the BlockLeases, so a block is given back
  // when the last slice in the block is gone.
  whole.clear();
  return Give(std::move(frame), std::move(payload), sinks);
}

absl::Status LocalReader::TakePart(const proto::LocalFrame& frame, const Sinks& sinks) {
  if (frame.block() != 0) {
    ASSIGN_OR_RETURN(const ByteSlice slice, BlockBytes(frame));
    bytes_taken_ += slice.size;
    // The part is copied out of its slot (a shared block) at once, so that the sender can reuse the
    // slot for a later part.
    RETURN_IF_ERROR(parts_.Add(absl::MakeConstSpan(slice.data, slice.size)));
    sinks.part_read(frame.block());
  } else if (!frame.payload().empty()) {
    const absl::string_view bytes = frame.payload();
    RETURN_IF_ERROR(parts_.Add(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())));
  } else {
    return absl::OkStatus();  // the frame has no payload, only notes about blocks
  }
  return PartAdded(sinks);
}

absl::Status LocalReader::BeginParts(proto::LocalFrame& frame) {
  if (!HasKind(frame)) return Malformed("parts of no message");
  RETURN_IF_ERROR(parts_.Begin(frame.whole_bytes()));
  // The message's kind and header are moved to first_of_parts_. The rest of the frame is a part of
  // the payload, as in the frames that follow.
  first_of_parts_.Clear();
  if (frame.has_call()) first_of_parts_.mutable_call()->Swap(frame.mutable_call());
  if (frame.has_reply()) first_of_parts_.mutable_reply()->Swap(frame.mutable_reply());
  first_of_parts_.mutable_header()->swap(*frame.mutable_header());
  frame.clear_kind();
  return absl::OkStatus();
}

absl::Status LocalReader::BeginBehind(proto::LocalFrame frame, const Sinks& sinks) {
  auto behind = std::make_unique<Behind>();
  const size_t bytes = frame.following();
  if (HasKind(frame)) {
    // The other end chose the number `following`, so the limit is checked before memory is taken.
    if (bytes > options_.message_bytes_max) return Malformed(absl::StrCat(bytes, " bytes follow"));
    behind->place = sinks.place(frame, bytes);
    if (behind->place != nullptr) {
      COHORT_CHECK(behind->place->memory().size() == bytes, "a place is as large as its payload");
      behind->left = behind->place->memory();
    } else if (keeps_) {
      behind->kept = true;
      behind->missing = bytes;
    } else {
      behind->own = pool_->Take(bytes);
      behind->left = absl::MakeSpan(behind->own->data(), bytes);
    }
  } else {
    behind->of_parts = true;
    ASSIGN_OR_RETURN(behind->left, parts_.Next(bytes));
  }
  behind->frame = std::move(frame);
  behind_ = std::move(behind);
  return absl::OkStatus();
}

absl::Status LocalReader::EndBehind(const Sinks& sinks) {
  const std::unique_ptr<Behind> behind = std::exchange(behind_, nullptr);
  // The checksum of the payload was computed while its bytes arrived.
  if (options_.sums != FrameSums::kNone && behind->crc != behind->frame.following_crc()) {
    return Malformed("the CRC-32C of its payload differs: bytes changed on the way");
  }
  if (behind->of_parts) return PartAdded(sinks);
  // The handler has revoked its memory for the payload, so it gets its request without a payload.
  if (behind->revoked) return Give(std::move(behind->frame), {}, sinks);
  if (behind->kept) return Give(std::move(behind->frame), std::move(behind->pieces), sinks);
  const size_t bytes = behind->frame.following();
  if (behind->place != nullptr) {
    const std::byte* const data = behind->place->memory().data();
    return Give(std::move(behind->frame), {{std::move(behind->place), data, bytes}}, sinks);
  }
  return Give(std::move(behind->frame), {SliceOf(std::move(behind->own), bytes)}, sinks);
}

absl::Status LocalReader::PartAdded(const Sinks& sinks) {
  if (!parts_.complete()) return absl::OkStatus();
  return Give(std::move(first_of_parts_), {parts_.Take()}, sinks);
}

absl::Status LocalReader::Give(proto::LocalFrame frame, Payload payload, const Sinks& sinks) {
  if (sinks.take(std::move(frame), std::move(payload))) return absl::OkStatus();
  return absl::UnavailableError("the connection was closed");
}

}  // namespace cohort
