#include "common/wire/grpc_parts_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/support/server_callback.h>

#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/grpc_bytes.h"
#include "common/wire/grpc_parts.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// One call: its parts come, it is handled, the answer's parts go. Thread-safe.
class PartsCall final : public Reactor,
                        public OpenCall,
                        public std::enable_shared_from_this<PartsCall> {
 public:
  PartsCall(grpc::CallbackServerContext& context, std::shared_ptr<const GrpcDispatcher> dispatcher)
      : context_(context),
        dispatcher_(std::move(dispatcher)),
        request_(dispatcher_->message_bytes_max, dispatcher_->pool) {}

  static Reactor* Start(grpc::CallbackServerContext& context,
                        std::shared_ptr<const GrpcDispatcher> dispatcher) {
    auto call = std::make_shared<PartsCall>(context, std::move(dispatcher));
    call->self_ = call;
    call->dispatcher_->TellNames(context);
    call->StartRead(&call->read_);
    return call.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      return End(grpc::Status(grpc::StatusCode::CANCELLED, "the request's parts stopped coming"));
    }
    const bool first = !request_.begun();
    const absl::Status added = Add();
    read_.Clear();
    if (!added.ok()) return End(ToGrpcStatus(added));
    const std::string method = request_.method();
    const size_t bytes = request_.payload_bytes();
    if (!request_.complete()) {
      const bool ask = first && request_.announced();
      // Also while it waits for room: so a caller that goes away is noticed.
      StartRead(&read_);
      if (ask) AskForRoom(method, bytes);
      return;
    }
    if (first) SetRoom(dispatcher_->calls->TakeRoom(method, bytes));
    dispatcher_->calls->Handle(shared_from_this(), method, request_.Take());
  }

  void Finish(absl::StatusOr<Message> result) override {
    AfterRoomIsTold([this, result = std::move(result)]() mutable {
      const absl::Status failure = result.ok()
                                       ? CheckSize(*result, dispatcher_->message_bytes_max)
                                       : result.status();
      if (failure.ok()) {
        answer_.emplace("", *std::move(result));
        return WriteNext();
      }
      context_.AddTrailingMetadata(kHandlerFailureKey, "1");
      Reactor::Finish(ToGrpcStatus(failure));
    });
  }

  void Stop(const std::string& text) override {
    End(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

  void OnWriteDone(bool ok) override {
    if (!answer_.has_value()) return RoomIsTold();
    if (ok) return WriteNext();
    Reactor::Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer cannot be sent"));
  }

  void OnDone() override { std::exchange(self_, nullptr).reset(); }

 private:
  using Step = absl::AnyInvocable<void()>;

  absl::Status Add() {
    RETURN_IF_ERROR(request_.Add(read_));
    if (request_.payload_bytes() <= kUnaskedBytesMax || request_.announced()) {
      return absl::OkStatus();
    }
    MutexLock lock(mutex_);
    if (may_come_) return absl::OkStatus();
    return absl::InvalidArgumentError("bytes of a large request before there was room for them");
  }

  void AskForRoom(const std::string& method, size_t bytes) {
    dispatcher_->calls->AskForRoom(
        method, bytes, [weak = weak_from_this()](ByteBudget::Room room) {
          if (const auto self = weak.lock()) self->TellRoom(std::move(room));
        });
  }

  void TellRoom(ByteBudget::Room room) {
    {
      MutexLock lock(mutex_);
      if (ended_) return;
      may_come_ = true;
      telling_ = true;
      SetRoom(std::move(room));
    }
    write_ = RoomPart();
    StartWrite(&write_);
  }

  void RoomIsTold() {
    Step next;
    {
      MutexLock lock(mutex_);
      telling_ = false;
      next = std::exchange(next_, nullptr);
    }
    if (next) next();
  }

  // gRPC is given one thing to write at a time. Once, and the last step of the call.
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

  void WriteNext() {
    write_ = answer_->Next();
    if (!answer_->done()) return StartWrite(&write_, grpc::WriteOptions().set_buffer_hint());
    StartWriteAndFinish(&write_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void End(const grpc::Status& status) {
    AfterRoomIsTold([this, status] { Reactor::Finish(status); });
  }

  grpc::CallbackServerContext& context_;
  const std::shared_ptr<const GrpcDispatcher> dispatcher_;  // shared with the server
  std::shared_ptr<PartsCall> self_;                         // until gRPC is done
  // Reading, handling and writing follow each other, and of answer and stop one is let in
  // (OpenCall::Claim), so gRPC is told one thing at a time and one end.
  grpc::ByteBuffer read_, write_;
  PartReceiver request_;
  std::optional<PartSender> answer_;
  Mutex mutex_;
  bool may_come_ ABSL_GUARDED_BY(mutex_) = false;  // the bytes of a large request
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;   // the caller is being told so
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Step next_ ABSL_GUARDED_BY(mutex_);  // what waits until it was told
};

}  // namespace

void GrpcDispatcher::TellNames(grpc::CallbackServerContext& context) const {
  if (context.client_metadata().count(kLocalNameKey) == 0) return;
  if (!local_name.empty()) context.AddInitialMetadata(kLocalNameKey, local_name);
  if (!stream_name.empty()) context.AddInitialMetadata(kStreamNameKey, stream_name);
}

grpc::internal::MethodHandler* MakePartsHandler(
    std::shared_ptr<const GrpcDispatcher> dispatcher) {
  return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
      [dispatcher = std::move(dispatcher)](grpc::CallbackServerContext* context) {
        return PartsCall::Start(*context, dispatcher);
      });
}

}  // namespace cohort
