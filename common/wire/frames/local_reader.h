#pragma once

// The receiving side of a local connection: from the bytes and descriptors of its socket to
// messages. Every number that comes from the other end is checked in this process's own copy of its
// frame before it is used. Internal to common/wire.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/unique_fd.h"
#include "common/wire/frames/frame_prefix.h"
#include "common/wire/frames/shared_block.h"
#include "common/wire/message.h"
#include "common/wire/payload_assembler.h"
#include "common/wire/receive_place.h"
#include "proto/local.pb.h"

namespace cohort {

// The receiver of the news that a block of the other end was read, on any thread. Thread-safe.
class BlockReturn {
 public:
  virtual ~BlockReturn() = default;
  virtual void BlockRead(uint64_t block, size_t bytes) = 0;
};

// Thread-compatible: of the loop's thread.
class LocalReader {
 public:
  struct Options {
    size_t message_bytes_max = 0;
    bool blocks = true;  // else one that comes ends the connection
    FrameSums sums = FrameSums::kNone;
    // The pool for payloads. Shared with other readers; null: one of its own.
    std::shared_ptr<ReceivePool> pool = nullptr;
  };
  explicit LocalReader(Options options);

  // The receivers of what arrives. `notes` gets every frame, for what it says of blocks;
  // `part_read` the block of a part, once it was copied; `take` the frames that are a message, once
  // the payload is whole. Returning false ends the connection. `place` may say where the payload
  // after a frame goes; null: memory of the reader.
  struct Sinks {
    std::weak_ptr<BlockReturn> blocks;
    absl::FunctionRef<bool(const proto::LocalFrame& frame)> notes;
    absl::FunctionRef<void(uint64_t block)> part_read;
    absl::FunctionRef<bool(proto::LocalFrame frame, Payload payload)> take;
    absl::FunctionRef<std::shared_ptr<ReceivePlace>(const proto::LocalFrame& frame, size_t bytes)>
        place;
  };

  // Reads what one look at the socket brings, or two if the first brings a frame followed by a
  // payload; the rest makes the next event. Errors, after which the connection has to end:
  // UNAVAILABLE if the other end is gone; MalformedMessage or RESOURCE_EXHAUSTED for bytes that are
  // not a frame, have another sum, or exceed the limits, here or at the other end.
  absl::Status ReadSome(const UniqueFd& socket, const Sinks& sinks);

 private:
  class BlockLease;
  // A frame whose payload has not arrived whole.
  struct Behind {
    proto::LocalFrame frame;
    bool of_parts = false;                // its bytes are a part of parts_
    std::shared_ptr<ReceivePlace> place;  // else they go there, if it is not null
    bool revoked = false;                 // nobody wants them any more
    std::shared_ptr<Buffer> own;          // else this is the payload
    absl::Span<std::byte> left;           // the memory that is still to be filled
    uint32_t crc = 0;                     // sum of the bytes that have come, if frames have sums
  };

  absl::Status ReadFrames(const UniqueFd& socket, const Sinks& sinks);
  absl::Status ReadBehind(const UniqueFd& socket, const Sinks& sinks);
  absl::Status TakeBytes(const Sinks& sinks);
  absl::StatusOr<proto::LocalFrame> ParseFrame(const FramePrefix& prefix,
                                               absl::string_view bytes) const;
  absl::Status TakeFrame(proto::LocalFrame frame, const Sinks& sinks);
  // Has `write` fill the memory for the bytes that are still to come; `write` may take the first of
  // them, and returns how many it took.
  absl::Status FillBehind(
      absl::FunctionRef<absl::StatusOr<size_t>(absl::Span<std::byte> memory)> write);
  absl::Status BeginBehind(proto::LocalFrame frame, const Sinks& sinks);
  absl::Status EndBehind(const Sinks& sinks);
  absl::Status MapBlock(uint64_t block);
  absl::StatusOr<ByteSlice> BlockBytes(const proto::LocalFrame& frame) const;
  // Returns a whole block, which is given back when the slice's owner dies.
  absl::StatusOr<ByteSlice> Lease(uint64_t block, const Sinks& sinks) const;
  absl::Status TakeRanges(proto::LocalFrame frame, const Sinks& sinks);
  absl::Status TakeMessage(proto::LocalFrame frame, const Sinks& sinks);
  absl::Status TakePart(const proto::LocalFrame& frame, const Sinks& sinks);
  absl::Status BeginParts(proto::LocalFrame& frame);
  absl::Status PartAdded(const Sinks& sinks);
  absl::Status Give(proto::LocalFrame frame, Payload payload, const Sinks& sinks);

  const Options options_;
  const size_t frame_bytes_max_;
  std::vector<char> buffer_;
  std::string received_;
  std::deque<UniqueFd> passed_;
  // Shared with the payloads that are read from them.
  std::map<uint64_t, std::shared_ptr<const Mapping>> mapped_;
  // Shared with the payloads that were handed out.
  const std::shared_ptr<ReceivePool> pool_;
  PayloadAssembler parts_;
  proto::LocalFrame first_of_parts_;  // kind and header of the message whose parts come
  std::unique_ptr<Behind> behind_;    // null: the next byte begins a frame
  bool bulky_ = false;                // the last frame had a large payload behind it
};

}  // namespace cohort
