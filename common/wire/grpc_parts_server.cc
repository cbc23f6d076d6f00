#include "common/wire/grpc_parts_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/support/server_callback.h>

#include <optional>
#include <utility>

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
    call->dispatcher_->TellLocalName(context);
    call->StartRead(&call->read_);
    return call.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      return End(grpc::Status(grpc::StatusCode::CANCELLED, "the request's parts stopped coming"));
    }
    const absl::Status added = request_.Add(read_);
    read_.Clear();
    if (!added.ok()) return End(ToGrpcStatus(added));
    if (!request_.complete()) return StartRead(&read_);
    const std::string method = request_.method();
    dispatcher_->calls->Handle(shared_from_this(), method, request_.Take());
  }

  void Finish(absl::StatusOr<Message> result) override {
    const absl::Status failure = result.ok()
                                     ? CheckSize(*result, dispatcher_->message_bytes_max)
                                     : result.status();
    if (failure.ok()) {
      answer_.emplace("", *std::move(result));
      return WriteNext();
    }
    context_.AddTrailingMetadata(kHandlerFailureKey, "1");
    End(ToGrpcStatus(failure));
  }

  void Stop(const std::string& text) override {
    End(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

  void OnWriteDone(bool ok) override {
    if (ok) return WriteNext();
    End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer cannot be sent"));
  }

  void OnDone() override { std::exchange(self_, nullptr).reset(); }

 private:
  void WriteNext() {
    write_ = answer_->Next();
    if (!answer_->done()) return StartWrite(&write_, grpc::WriteOptions().set_buffer_hint());
    StartWriteAndFinish(&write_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void End(const grpc::Status& status) { Reactor::Finish(status); }

  grpc::CallbackServerContext& context_;
  const std::shared_ptr<const GrpcDispatcher> dispatcher_;  // shared with the server
  std::shared_ptr<PartsCall> self_;                         // until gRPC is done
  // Reading, handling and writing follow each other, and of answer and stop one is let in
  // (OpenCall::Claim), so gRPC is told one thing at a time and one end.
  grpc::ByteBuffer read_, write_;
  PartReceiver request_;
  std::optional<PartSender> answer_;
};

}  // namespace

void GrpcDispatcher::TellLocalName(grpc::CallbackServerContext& context) const {
  if (local_name.empty() || context.client_metadata().count(kLocalNameKey) == 0) return;
  context.AddInitialMetadata(kLocalNameKey, local_name);
}

grpc::internal::MethodHandler* MakePartsHandler(
    std::shared_ptr<const GrpcDispatcher> dispatcher) {
  return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
      [dispatcher = std::move(dispatcher)](grpc::CallbackServerContext* context) {
        return PartsCall::Start(*context, dispatcher);
      });
}

}  // namespace cohort
