#pragma once

// The receiving side of a local connection: turns the bytes and descriptors of a socket into
// messages. Every number that the other end sent is checked in this process's own copy of the frame
// before the number is used. Internal to common/wire.

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

// The interface by which a reader reports that nobody reads a payload in a block of the other end
// any more. Called on any thread. Thread-safe.
class BlockReturn {
 public:
  virtual ~BlockReturn() = default;
  virtual void BlockRead(uint64_t block, size_t bytes) = 0;
};

// Reads the frames of one connection. Thread-compatible: used by the loop's thread alone.
class LocalReader {
 public:
  struct Options {
    size_t message_bytes_max = 0;
    bool blocks = true;  // false: a frame that names a block ends the connection
    FrameSums sums = FrameSums::kNone;
    // The pool for the memory of payloads, shared with other readers. Null: the reader makes a pool
    // of its own.
    std::shared_ptr<ReceivePool> pool = nullptr;
  };
  explicit LocalReader(Options options);

  // The callbacks of a reader. `notes` gets every frame, for what the frame says about blocks.
  // `part_read` gets the block of a part of a payload once the part was copied. `take` gets each
  // frame that is a message, once the payload is whole. `notes` and `take` end the connection by
  // returning false. `place` may return memory for the payload that follows a frame; null: the
  // reader's own memory is used.
  struct Sinks {
    std::weak_ptr<BlockReturn> blocks;
    absl::FunctionRef<bool(const proto::LocalFrame& frame)> notes;
    absl::FunctionRef<void(uint64_t block)> part_read;
    absl::FunctionRef<bool(proto::LocalFrame frame, Payload payload)> take;
    absl::FunctionRef<std::shared_ptr<ReceivePlace>(const proto::LocalFrame& frame, size_t bytes)>
        place;
  };

  // Reads once from the socket, or twice if the first read ends in a frame that a payload follows.
  // Bytes that are left cause another event of the socket. Errors, after which the connection must
  // end: UNAVAILABLE if the other end is gone; MalformedMessage or RESOURCE_EXHAUSTED for bytes
  // that are not a frame, have a wrong checksum, or exceed the limits, at this end or at the other.
  absl::Status ReadSome(const UniqueFd& socket, const Sinks& sinks);

  // Takes the next bytes of a connection that is not a socket. A payload that follows its frame
  // whole stays in the memory of `bytes`, unless its handler has a place for it. Errors: those of
  // ReadSome.
  absl::Status Take(const Payload& bytes, const Sinks& sinks);

  // Returns the number of bytes that were read so far, with those in shared blocks.
  uint64_t bytes_taken() const { return bytes_taken_; }

 private:
  class BlockLease;
  // A frame whose payload follows it on the socket and has not arrived whole.
  struct Behind {
    proto::LocalFrame frame;
    // True if the bytes that follow are a part of the payload that parts_ assembles.
    bool of_parts = false;
    // The handler's memory for the payload. Null: the reader's own memory is used.
    std::shared_ptr<ReceivePlace> place;
    bool revoked = false;         // whether the handler revoked `place`: nobody wants the payload
    std::shared_ptr<Buffer> own;  // the reader's own memory for the payload
    bool kept = false;            // whether the payload stays where it arrived, in `pieces`
    Payload pieces;
    size_t missing = 0;          // the bytes that `pieces` still lacks
    absl::Span<std::byte> left;  // the part of the payload's memory that is still to be filled
    uint32_t crc = 0;            // checksum of the payload's bytes so far, if frames have checksums
  };

  absl::Status ReadFrames(const UniqueFd& socket, const Sinks& sinks);
  absl::Status ReadBehind(const UniqueFd& socket, const Sinks& sinks);
  absl::Status TakeBytes(const Sinks& sinks);
  // Takes the frame at the start of `bytes` off them. Returns false if the frame is not complete.
  absl::StatusOr<bool> TakeFirstFrame(absl::string_view& bytes, const Sinks& sinks);
  // Takes bytes off the start of `bytes`: those of the frame whose beginning arrived before, or of
  // a frame that begins here.
  absl::Status TakeHead(absl::string_view& bytes, const Sinks& sinks);
  // Takes bytes of the current payload off the start of `bytes`, which `slice` holds.
  absl::Status TakeBehind(const ByteSlice& slice, absl::string_view& bytes, const Sinks& sinks);
  absl::StatusOr<proto::LocalFrame> ParseFrame(const FramePrefix& prefix,
                                               absl::string_view bytes) const;
  absl::Status TakeFrame(proto::LocalFrame frame, const Sinks& sinks);
  // Lets `write` fill the rest of the current payload's memory. `write` may fill only the first
  // bytes of that memory, and returns how many bytes it filled.
  absl::Status FillBehind(
      absl::FunctionRef<absl::StatusOr<size_t>(absl::Span<std::byte> memory)> write);
  absl::Status BeginBehind(proto::LocalFrame frame, const Sinks& sinks);
  absl::Status EndBehind(const Sinks& sinks);
  absl::Status MapBlock(uint64_t block);
  absl::StatusOr<ByteSlice> BlockBytes(const proto::LocalFrame& frame) const;
  // Returns a slice of a whole block of the other end. The block is given back to the other end
  // when the slice's owner dies.
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
  proto::LocalFrame first_of_parts_;  // kind and header of the message whose parts are arriving
  // The frame whose payload is arriving; null if the next byte begins a frame.
  std::unique_ptr<Behind> behind_;
  uint64_t bytes_taken_ = 0;
  bool bulky_ = false;  // whether a large payload followed the last frame
  bool keeps_ = false;  // whether payloads stay in the memory in which they arrive (Take)
};

}  // namespace cohort
