#include "common/wire/grpc/grpc_parts.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_client_stream.h"
#include "common/wire/message.h"
#include "common/wire/method_table.h"
#include "common/wire/payload_assembler.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

grpc::ByteBuffer Encoded(Envelope<proto::CallPart> part) {
  const absl::StatusOr<Payload> frame = EncodeCheckedFrame(Pack(std::move(part)), kMessageBytesMax);
  COHORT_CHECK(frame.ok(), "the size of the message was checked");
  return ToByteBuffer(*frame);
}

// Cuts a message into parts, which are sent one after another. Thread-compatible.
class PartSender {
 public:
  // Makes a sender of `message`. `method` is empty for an answer.
  PartSender(std::string method, Message message);

  // Leaves the payload out of the first part, so that this part announces the request. Must run
  // before the first Next.
  void Announce() { announces_ = true; }
  bool done() const { return begun_ && sent_ == bytes_; }
  // Returns the next part of the message. Must not run after the last part.
  grpc::ByteBuffer Next();

 private:
  const std::string method_;
  Message message_;
  const size_t bytes_;
  bool announces_ = false;
  bool begun_ = false;
  size_t sent_ = 0;
};

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
  // gRPC now holds the last part, which shares the payload's memory, so the memory is freed when
  // the parts were sent.
  if (sent_ == bytes_) message_.payload.clear();
  return Encoded(std::move(part));
}

// Returns the part by which a server grants room: the client may then send the bytes of an
// announced request.
grpc::ByteBuffer RoomPart() {
  Envelope<proto::CallPart> part;
  part.header.set_room(true);
  return Encoded(std::move(part));
}

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
  PayloadAssembler payload_;  // the payload, begun when its first byte arrives
};

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
  // Memory for the payload is taken when the payload's first bytes arrive, not when it is
  // announced.
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

// Writes the parts of a request one after another, while it reads the parts of the answer. gRPC
// runs one callback about reading and one about writing at a time, possibly both at once, and
// OnDone last. Deletes itself in OnDone.
class PartsCaller final : public GrpcClientStream {
 public:
  explicit PartsCaller(PartsRequest request)
      : context_(std::move(request.context)),
        done_(std::move(request.done)),
        sender_(std::move(request.method), std::move(request.message)),
        waits_for_room_(request.asks),
        answer_(request.message_bytes_max, std::move(request.pool)) {}

  void Start(grpc::GenericStub& stub) {
    if (waits_for_room_) sender_.Announce();
    // The hold keeps this object alive until WriteNext has returned, because gRPC may end the call
    // before.
    AddHold();
    StartCall(stub, *context_, kPartsMethod);
    WriteNext();
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    if (!ok || sender_.done()) return;
    // The announcement of the payload was written. The payload's bytes follow once the server has
    // also granted room.
    if (!std::exchange(waits_for_room_, false)) return WriteNext();
    AnnouncedOrRoom();
  }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    received_ = answer_.Add(message);
    if (!received_.ok()) {
      // A malformed answer ends the call, and OnDone reports the error in the answer.
      context_->TryCancel();
      return false;
    }
    if (answer_.room() && !std::exchange(room_told_, true)) AnnouncedOrRoom();
    return true;
  }

  void OnDone(const grpc::Status& status) override {
    const std::unique_ptr<PartsCaller> self(this);
    // If the answer was malformed, that error is reported, because it says more than the
    // cancellation that followed.
    done_(received_.ok() ? status : grpc::Status::OK, Answer());
  }

 private:
  absl::StatusOr<Message> Answer() {
    RETURN_IF_ERROR(received_);
    if (!answer_.complete()) return absl::UnavailableError("the answer ended early");
    return answer_.Take();
  }

  // Starts the payload. Runs when the announcement was written and when room was granted, in either
  // order: the second of these two events starts the writing.
  void AnnouncedOrRoom() {
    if (may_go_on_.exchange(true)) WriteNext();
  }

  void WriteNext() {
    const grpc::ByteBuffer part = sender_.Next();
    grpc::WriteOptions options;
    if (sender_.done()) {
      options.set_last_message();
      // The announcement must go at once. With the buffer hint, gRPC would wait for more bytes.
    } else if (!waits_for_room_) {
      options.set_buffer_hint();
    }
    StartWrite(part, options);
  }

  // Shared with the handle that may cancel the call.
  const std::shared_ptr<grpc::ClientContext> context_;
  const std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done_;
  PartSender sender_;
  bool waits_for_room_;     // true until an announcement was written; for callbacks about writing
  bool room_told_ = false;  // true once room was granted; for callbacks about reading
  std::atomic<bool> may_go_on_{false};
  PartReceiver answer_;
  absl::Status received_;
};

// A call whose request arrives in parts and whose answer is sent in parts. Thread-safe.
class PartsCall final : public GrpcServedCall,
                        public OpenCall,
                        public std::enable_shared_from_this<PartsCall> {
 public:
  PartsCall(std::unique_ptr<GrpcIncoming> call, std::shared_ptr<const GrpcDispatcher> dispatcher)
      : GrpcServedCall(std::move(call)),
        dispatcher_(std::move(dispatcher)),
        request_(dispatcher_->message_bytes_max, dispatcher_->pool) {}

  static void Start(std::unique_ptr<GrpcIncoming> incoming,
                    const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
    auto call = std::make_shared<PartsCall>(std::move(incoming), dispatcher);
    call->self_ = call;
    dispatcher->TellNames(call->context());
    call->StartReading();
  }

  // Takes the next part of the request. The call also reads while the request waits for room, so a
  // caller that goes away is noticed.
  bool OnMessage(const grpc::ByteBuffer& message) override {
    const bool first = !request_.begun();
    const absl::Status added = Add(message);
    if (!added.ok()) {
      End(ToGrpcStatus(added));
      return false;
    }
    const std::string method = request_.method();
    const size_t bytes = request_.payload_bytes();
    if (!request_.complete()) {
      // The server's budget is asked for room once, when the announcement of the payload arrives.
      if (first && request_.announced()) AskForRoom(method, bytes);
      return true;
    }
    // A request that was not announced is small, and its bytes have arrived already.
    if (first) SetRoom(dispatcher_->calls->TakeRoom(method, bytes));
    dispatcher_->calls->Handle(shared_from_this(), method, request_.Take());
    return false;
  }

  void OnReadEnd() override {
    End(grpc::Status(grpc::StatusCode::CANCELLED, "the request's parts stopped coming"));
  }

  void Finish(absl::StatusOr<Message> result) override {
    AfterRoomIsTold([this, result = std::move(result)]() mutable {
      const absl::Status failure =
          result.ok() ? CheckSize(*result, dispatcher_->message_bytes_max) : result.status();
      if (failure.ok()) {
        answer_.emplace("", *std::move(result));
        return WriteNext();
      }
      // The key lets the caller distinguish a handler's failure from a failure of the transport.
      context().AddTrailingMetadata(kHandlerFailureKey, "1");
      StartFinish(ToGrpcStatus(failure));
    });
  }

  void Stop(const std::string& text) override {
    End(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

  void OnWriteDone(bool ok) override {
    // Before there is an answer, the only message written to the caller is the grant of room for
    // its request.
    if (!answer_.has_value()) return RoomIsTold();
    if (ok) return WriteNext();
    StartFinish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer cannot be sent"));
  }

  void OnDone() override {
    dispatcher_ = nullptr;
    std::exchange(self_, nullptr).reset();
  }

 private:
  using Step = absl::AnyInvocable<void()>;

  // Adds a part, and refuses the bytes of a large request that was not granted room.
  absl::Status Add(const grpc::ByteBuffer& part) {
    RETURN_IF_ERROR(request_.Add(part));
    if (request_.payload_bytes() <= kUnaskedBytesMax || request_.announced()) {
      return absl::OkStatus();
    }
    MutexLock lock(mutex_);
    if (may_come_) return absl::OkStatus();
    return absl::InvalidArgumentError("bytes of a large request before there was room for them");
  }

  void AskForRoom(const std::string& method, size_t bytes) {
    dispatcher_->calls->AskForRoom(method, bytes, [weak = weak_from_this()](ByteBudget::Room room) {
      // The caller may be gone by the time the budget has room for the request.
      if (const auto self = weak.lock()) self->TellRoom(std::move(room));
    });
  }

  // Tells the caller to send the bytes of its request, for which room is now reserved.
  void TellRoom(ByteBudget::Room room) {
    {
      MutexLock lock(mutex_);
      if (ended_) return;
      may_come_ = true;
      telling_ = true;
      SetRoom(std::move(room));
    }
    StartWrite(RoomPart());
  }

  // Runs the call's last step if the step has waited for the grant of room to be written.
  void RoomIsTold() {
    Step next;
    {
      MutexLock lock(mutex_);
      telling_ = false;
      next = std::exchange(next_, nullptr);
    }
    if (next) next();
  }

  // Runs the last step of the call, after the grant of room was written: gRPC takes one write at a
  // time. Must run once.
  void AfterRoomIsTold(Step step) {
    {
      MutexLock lock(mutex_);
      ended_ = true;
      if (telling_) {
        next_ = std::move(step);
        return;
      }
    }
    step();
  }

  // Writes the next part of the answer. The last part goes together with the end of the call.
  void WriteNext() {
    const grpc::ByteBuffer part = answer_->Next();
    if (!answer_->done()) return StartWrite(part, grpc::WriteOptions().set_buffer_hint());
    StartWriteAndFinish(part);
  }

  void End(const grpc::Status& status) {
    AfterRoomIsTold([this, status] { StartFinish(status); });
  }

  // The server's shared state, dropped when gRPC is done with the call. A service may keep the
  // reply, and with it this call, for longer.
  std::shared_ptr<const GrpcDispatcher> dispatcher_;
  std::shared_ptr<PartsCall> self_;  // this call, kept until gRPC is done with it
  // Reading, handling and writing follow one another, and only one of answer and stop ends the call
  // (OpenCall::Claim). So gRPC gets one operation at a time, and one end of the call.
  PartReceiver request_;
  std::optional<PartSender> answer_;
  Mutex mutex_;
  // True once the client may send the bytes of a large request.
  bool may_come_ ABSL_GUARDED_BY(mutex_) = false;
  // True while the grant of room is being written to the caller.
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The call's last step, while it waits for the grant of room to be written.
  Step next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void StartPartsCall(grpc::GenericStub& stub, PartsRequest request) {
  (new PartsCaller(std::move(request)))->Start(stub);
}

void ServeParts(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  PartsCall::Start(std::move(call), dispatcher);
}

}  // namespace cohort
