#include "common/wire/grpc/grpc_parts_server.h"

#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_parts.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

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
      // The server asks for room once, when the announcement arrives.
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
    // As long as there is no answer, only the grant of room is written.
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

  // Tells the caller that the bytes of its request may come, and reserves the room for them.
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

  // Runs the step that waited until the grant of room was written.
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

  // Kept until gRPC is done with the call: a service may keep the reply, and the reply keeps this
  // call. Shared with the server.
  std::shared_ptr<const GrpcDispatcher> dispatcher_;
  std::shared_ptr<PartsCall> self_;  // this call, kept until gRPC is done with it
  // Reading, handling and writing follow each other, and either the answer or the stop is let in
  // (OpenCall::Claim). So gRPC gets one operation at a time, and one end.
  PartReceiver request_;
  std::optional<PartSender> answer_;
  Mutex mutex_;
  bool may_come_ ABSL_GUARDED_BY(mutex_) = false;  // whether the bytes of a large request may come
  // Whether the caller is being told that the bytes of its request may come.
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Step next_ ABSL_GUARDED_BY(mutex_);  // the last step, if it waits until the caller was told
};

}  // namespace

void ServeParts(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  PartsCall::Start(std::move(call), dispatcher);
}

}  // namespace cohort
