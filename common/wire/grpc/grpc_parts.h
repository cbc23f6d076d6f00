#pragma once

// A message that travels in parts over gRPC: one bidirectional stream for each call
// (proto/wire.proto, WireService.Call), and one message of the stream for each part. The sender
// gives gRPC a part when the previous part has been written to the socket. Together with HTTP/2's
// flow control, this bounds the bytes under way. A large request is announced first, and its bytes
// wait until the server has room. Internal to common/wire: only its .cc files include this header.

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>
#include <utility>

#include "common/wire/frame_limits.h"
#include "common/wire/message.h"
#include "common/wire/payload_assembler.h"

namespace cohort {

inline constexpr char kPartsMethod[] = "/cohort.proto.WireService/Call";

// Cuts a message into its parts. Thread-compatible.
class PartSender {
 public:
  // Makes a sender of `message`. `method` is empty for an answer.
  PartSender(std::string method, Message message);

  // Leaves the payload out of the first part, so that this part announces the request. Must run
  // before the first Next.
  void Announce() { announces_ = true; }
  bool done() const { return begun_ && sent_ == bytes_; }
  // Returns the next part of the message. Must not run when done.
  grpc::ByteBuffer Next();

 private:
  const std::string method_;
  Message message_;
  const size_t bytes_;
  bool announces_ = false;
  bool begun_ = false;
  size_t sent_ = 0;
};

// Returns the part by which a server says that the bytes of an announced request may come.
grpc::ByteBuffer RoomPart();

// Assembles a message from its parts. Thread-compatible.
class PartReceiver {
 public:
  PartReceiver(size_t message_bytes_max, std::shared_ptr<ReceivePool> pool)
      : bytes_max_(message_bytes_max), payload_(message_bytes_max, std::move(pool)) {}

  // Adds the next part. Errors: INVALID_ARGUMENT for bytes that are not a part, or not the next
  // part of this message; RESOURCE_EXHAUSTED over the limits.
  absl::Status Add(const grpc::ByteBuffer& part);

  bool begun() const { return begun_; }
  // Returns whether a request's payload was announced and none of its bytes have arrived.
  bool announced() const { return begun_ && bytes_ > 0 && !payload_.under_way(); }
  size_t payload_bytes() const { return bytes_; }
  // Returns whether the server has said that there is room for the request.
  bool room() const { return room_; }
  bool complete() const { return begun_ && (bytes_ == 0 || payload_.complete()); }
  const std::string& method() const { return method_; }
  // Returns the assembled message, once, when it is complete.
  Message Take();

 private:
  const size_t bytes_max_;
  bool room_ = false;
  bool begun_ = false;
  std::string method_;
  std::string header_;
  size_t bytes_ = 0;
  PayloadAssembler payload_;  // under way from the first byte of the payload
};

}  // namespace cohort
