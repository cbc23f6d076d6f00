#include "common/wire/grpc/grpc_parts.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/method_table.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

grpc::ByteBuffer Encoded(Envelope<proto::CallPart> part) {
  const absl::StatusOr<Payload> frame = EncodeCheckedFrame(Pack(std::move(part)), kMessageBytesMax);
  COHORT_CHECK(frame.ok(), "the size of the message was checked");
  return ToByteBuffer(*frame);
}

}  // namespace

PartSender::PartSender(std::string method, Message message)
    : method_(std::move(method)),
      message_(std::move(message)),
      bytes_(PayloadBytes(message_.payload)) {}

grpc::ByteBuffer PartSender::Next() {
  Envelope<proto::CallPart> part;
  size_t count = std::min(kPartBytes, bytes_ - sent_);
  if (!begun_) {
    part.header.set_method(method_);
    part.header.set_header(std::move(message_.header));
    part.header.set_whole_bytes(bytes_);
    begun_ = true;
    // An announcement has the size of the payload but no bytes; the server has to grant room first.
    if (announces_) count = 0;
  }
  part.payload = PartOf(message_.payload, sent_, count);
  sent_ += count;
  // gRPC now holds the last part, so the payload's memory is released when the parts were sent.
  if (sent_ == bytes_) message_.payload.clear();
  return Encoded(std::move(part));
}

grpc::ByteBuffer RoomPart() {
  Envelope<proto::CallPart> part;
  part.header.set_room(true);
  return Encoded(std::move(part));
}

absl::Status PartReceiver::Add(const grpc::ByteBuffer& part) {
  ASSIGN_OR_RETURN(Message message, DecodeFrame(FromByteBuffer(part), bytes_max_));
  ASSIGN_OR_RETURN(const auto envelope, Unpack<proto::CallPart>(std::move(message)));
  if (complete()) return absl::InvalidArgumentError("a part follows the last one of its message");
  const proto::CallPart& header = envelope.header;
  // Only a server sends a part that grants room, before its answer.
  if (!begun_ && header.room()) {
    room_ = true;
    return absl::OkStatus();
  }
  if (!begun_) {
    // The size comes from the peer: it is checked before memory is taken, and without overflow.
    if (header.header().size() > std::min(kHeaderBytesMax, bytes_max_) ||
        header.whole_bytes() > bytes_max_ - header.header().size()) {
      return absl::ResourceExhaustedError("a message in parts is over the limit");
    }
    method_ = header.method();
    header_ = header.header();
    bytes_ = header.whole_bytes();
    begun_ = true;
  }
  // The payload's memory is taken with its first bytes, not with the announcement.
  if (bytes_ > 0 && !payload_.under_way() && !envelope.payload.empty()) {
    RETURN_IF_ERROR(payload_.Begin(bytes_));
  }
  for (const ByteSlice& slice : envelope.payload) {
    RETURN_IF_ERROR(payload_.Add(absl::MakeConstSpan(slice.data, slice.size)));
  }
  return absl::OkStatus();
}

Message PartReceiver::Take() {
  Message message{std::move(header_), {}};
  if (payload_.under_way()) message.payload.push_back(payload_.Take());
  return message;
}

}  // namespace cohort
