#pragma once

// The receiving side of a connection of frames: turns the bytes that arrive, and the descriptors
// that arrive over a unix socket, into messages. A number that the other end sent is checked before
// it is used, in a copy of the frame that the other end cannot change. Internal to common/wire.

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
#include "common/wire/receive_memory.h"
#include "proto/local.pb.h"

namespace cohort {

// The interface by which a reader reports that this process no longer reads a block of the other
// end. Called on any thread. Thread-safe.
class BlockReturn {
 public:
  virtual ~BlockReturn() = default;
  virtual void BlockRead(uint64_t block, size_t bytes) = 0;
};

// Reads the frames of one connection. Thread-compatible: only one thread at a time uses a reader.
class LocalReader {
 public:
  struct Options {
    size_t message_bytes_max = 0;
    bool blocks = true;  // false: a frame that names a block ends the connection
    FrameSums sums = FrameSums::kNone;
    // The pool for the memory of payloads, shared with other readers. Null: the reader makes its
    // own pool.
    std::shared_ptr<ReceivePool> pool = nullptr;
  };
  explicit LocalReader(Options options);

  // The callbacks of a reader. `blocks` learns which blocks of the other end this process no longer
  // reads. `notes` gets every frame, for what the frame says about blocks. `part_read` gets the
  // block of a part of a payload once the part was copied. `take` gets each frame that is a
  // message, once its payload is whole. `notes` and `take` end the connection by returning false.
  // `place` may return memory for the payload that follows a frame; if it returns null, the
  // reader's own memory is used.
  struct Sinks {
    std::weak_ptr<BlockReturn> blocks;
    absl::FunctionRef<bool(const proto::LocalFrame& frame)> notes;
    absl::FunctionRef<void(uint64_t block)> part_read;
    absl::FunctionRef<bool(proto::LocalFrame frame, Payload payload)> take;
    absl::FunctionRef<std::shared_ptr<ReceivePlace>(const proto::LocalFrame& frame, size_t bytes)>
        place;
  };

  // Reads once from the socket, and once more if the first read ended before the payload that
  // follows a frame. For bytes that are left, the socket has another event. Errors, after which the
  // connection must end: UNAVAILABLE if the other end is gone; MalformedMessage or
  // RESOURCE_EXHAUSTED if bytes are not a frame, have a wrong checksum or exceed the limits, or if
  // the other end reports such bytes.
  absl::Status ReadSome(const UniqueFd& socket, const Sinks& sinks);

  // Takes the next bytes of a connection that is not a socket. If a payload follows its frame and
  // does not travel in parts, it stays in the memory of `bytes`, unless its handler has a place for
  // it. Errors: those of ReadSome.
  absl::Status Take(const Payload& bytes, const Sinks& sinks);

  // Returns the number of bytes that were read so far, with those in shared blocks.
  uint64_t bytes_taken() const { return bytes_taken_; }

 private:
  class BlockLease;
  // A frame whose payload follows the frame, and that payload as far as it has arrived.
  struct Behind {
    proto::LocalFrame frame;
    // True if the bytes that follow the frame are a part of the payload that parts_ assembles.
    bool of_parts = false;
    // The handler's memory for the payload. Null: the reader's own memory is used.
    std::shared_ptr<ReceivePlace> place;
    // True if the handler has revoked `place`. The payload is then read and discarded.
    bool revoked = false;
    std::shared_ptr<Buffer> own;  // the reader's own memory for the payload
    // True if the payload's slices, in `pieces`, stay in the memory in which they arrive.
    bool kept = false;
    Payload pieces;
    size_t missing = 0;          // number of bytes that `pieces` still lacks
    absl::Span<std::byte> left;  // the rest of the payload's memory, not filled yet
    uint32_t crc = 0;            // checksum of the payload's bytes so far, if frames have any
  };

  absl::Status ReadFrames(const UniqueFd& socket, const Sinks& sinks);
  absl::Status ReadBehind(const UniqueFd& socket, const Sinks& sinks);
  absl::Status TakeBytes(const Sinks& sinks);
  // Handles the frame at the start of `bytes` and removes it from `bytes`. Returns false if the
  // frame is not complete.
  absl::StatusOr<bool> TakeFirstFrame(absl::string_view& bytes, const Sinks& sinks);
  // Removes bytes of a frame from the start of `bytes`, and handles the frame once it is complete.
  // The start of the frame may have arrived in earlier bytes.
  absl::Status TakeHead(absl::string_view& bytes, const Sinks& sinks);
  // Removes bytes of the current payload from the start of `bytes`. `slice` holds the memory of
  // `bytes`.
  absl::Status TakeBehind(const ByteSlice& slice, absl::string_view& bytes, const Sinks& sinks);
  absl::StatusOr<proto::LocalFrame> ParseFrame(const FramePrefix& prefix,
                                               absl::string_view bytes) const;
  absl::Status TakeFrame(proto::LocalFrame frame, const Sinks& sinks);
  // Calls `write` with the part of the current payload's memory that is not filled yet. `write`
  // fills the first bytes of that memory, or all of it, and returns how many bytes it has filled.
  absl::Status FillBehind(
      absl::FunctionRef<absl::StatusOr<size_t>(absl::Span<std::byte> memory)> write);
  absl::Status BeginBehind(proto::LocalFrame frame, const Sinks& sinks);
  absl::Status EndBehind(const Sinks& sinks);
  absl::Status MapBlock(uint64_t block);
  absl::StatusOr<ByteSlice> BlockBytes(const proto::LocalFrame& frame) const;
  // Returns a slice of a whole block of the other end. The block is given back to the other end
  // when the owner of the slice is gone.
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
  // The mapped blocks of the other end, by id. Shared with the payloads that lie in the blocks.
  std::map<uint64_t, std::shared_ptr<const Mapping>> mapped_;
  // The pool of payload memory. Shared with the payloads that were handed out.
  const std::shared_ptr<ReceivePool> pool_;
  PayloadAssembler parts_;
  // The kind and the header of the message whose parts are arriving.
  proto::LocalFrame first_of_parts_;
  // The frame whose payload is arriving; null if the next bytes belong to a frame.
  std::unique_ptr<Behind> behind_;
  uint64_t bytes_taken_ = 0;
  bool bulky_ = false;  // whether a large payload followed the last frame
  // Whether Take is used: payloads may stay in the memory in which they arrive.
  bool keeps_ = false;
};

}  // namespace cohort
