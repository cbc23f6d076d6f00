#include "common/wire/grpc/grpc_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_parts.h"
#include "common/wire/grpc/grpc_parts_server.h"
#include "common/wire/grpc/grpc_served_call.h"
#include "common/wire/grpc/grpc_settings.h"
#include "common/wire/grpc/grpc_standard_calls.h"
#include "common/wire/grpc/grpc_stream_call.h"
#include "common/wire/grpc/grpc_stream_server.h"
#include "common/wire/method_table.h"
#include "common/wire/server_calls.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

// Returns the service that the transports of other processes ask.
Service WireService(const std::string& local_name) {
  Service service;
  service.descriptor =
      proto::LocalNameRequest::descriptor()->file()->FindServiceByName("WireService");
  service.handlers["LocalName"] = MakeHandler<proto::LocalNameRequest, proto::LocalNameResponse>(
      [local_name](Envelope<proto::LocalNameRequest>, TypedReply<proto::LocalNameResponse> reply) {
        Envelope<proto::LocalNameResponse> response;
        response.header.set_name(local_name);
        reply(std::move(response));
      });
  return service;
}

// Upper bound of the time in which a stopping server goes on sending earlier answers.
constexpr std::chrono::milliseconds kFlushTimeMax{500};

// A call of a method that takes one message and gives one. Thread-safe.
class UnaryCall final : public GrpcServedCall,
                        public OpenCall,
                        public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(std::unique_ptr<GrpcIncoming> call, std::shared_ptr<const GrpcDispatcher> dispatcher)
      : GrpcServedCall(std::move(call)), dispatcher_(std::move(dispatcher)) {}

  static void Start(std::unique_ptr<GrpcIncoming> incoming,
                    const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
    auto call = std::make_shared<UnaryCall>(std::move(incoming), dispatcher);
    call->self_ = call;
    call->StartReading();
  }

  void Finish(absl::StatusOr<Message> result) override {
    absl::StatusOr<Payload> frame =
        result.ok() ? EncodeCheckedFrame(*std::move(result), bytes_max()) : result.status();
    if (frame.ok()) return StartWriteAndFinish(ToByteBuffer(*frame));
    context().AddTrailingMetadata(kHandlerFailureKey, "1");
    StartFinish(ToGrpcStatus(frame.status()));
  }

  void Stop(const std::string& text) override {
    StartFinish(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

 private:
  size_t bytes_max() const { return dispatcher_->message_bytes_max; }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    const std::string method = context().method();  // the call may end inside its handling
    dispatcher_->TellNames(context());
    SetRoom(dispatcher_->calls->TakeRoom(method, message.Length()));
    dispatcher_->calls->Handle(shared_from_this(), method,
                               DecodeFrame(FromByteBuffer(message), bytes_max()));
    return false;
  }

  void OnReadEnd() override {
    StartFinish(grpc::Status(grpc::StatusCode::CANCELLED, "no request came"));
  }

  void OnDone() override {
    dispatcher_ = nullptr;
    std::exchange(self_, nullptr).reset();
  }

  // Kept until gRPC is done: a service may keep the reply, and with it this call. Shared with the
  // server.
  std::shared_ptr<const GrpcDispatcher> dispatcher_;
  std::shared_ptr<UnaryCall> self_;  // kept as long
};

void Serve(std::unique_ptr<GrpcIncoming> call,
           const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  if (ServeStandardCall(call, dispatcher->standard)) return;
  const std::string& method = call->context->method();
  if (method == kPartsMethod) return ServeParts(std::move(call), dispatcher);
  if (method == kCallsMethod) return ServeCalls(std::move(call), dispatcher);
  UnaryCall::Start(std::move(call), dispatcher);
}

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

class RawServer final : public GrpcServer {
 public:
  RawServer(std::string address, std::shared_ptr<ServerCalls> calls,
            std::shared_ptr<const GrpcDispatcher> dispatcher,
            std::unique_ptr<grpc::AsyncGenericService> service,
            std::unique_ptr<grpc::ServerCompletionQueue> no_queue,
            std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        calls_(std::move(calls)),
        streams_(dispatcher->streams),
        standard_(dispatcher->standard),
        service_(std::move(service)),
        no_queue_(std::move(no_queue)),
        acceptor_(std::move(acceptor)),
        server_(std::move(server)) {
    AskForCalls(*service_, open_, [dispatcher](std::unique_ptr<GrpcIncoming> call) {
      Serve(std::move(call), dispatcher);
    });
  }

  ~RawServer() override {
    calls_->Stop();
    streams_->EndAll();
    server_->Shutdown(std::chrono::system_clock::now() + kFlushTimeMax);
    open_->WaitForNone();
    no_queue_->Shutdown();
  }

  std::string address() const override { return address_; }

  void Drain(absl::Duration grace) override {
    standard_->serving = false;
    calls_->Drain(grace);
  }

  void Take(UniqueFd socket, const std::string& first_bytes) override {
    COHORT_CHECK(acceptor_ != nullptr, "a server that listens gets its connections by itself");
    Acceptor::NewConnectionParameters connection;
    const grpc::Slice bytes(first_bytes);
    if (!first_bytes.empty()) connection.read_buffer = grpc::ByteBuffer(&bytes, 1);
    connection.fd = socket.Release();
    acceptor_->HandleNewConnection(&connection);
  }

 private:
  const std::string address_;
  const std::shared_ptr<ServerCalls> calls_;          // shared with what serves its connections
  const std::shared_ptr<GrpcServedStreams> streams_;  // shared with themselves
  const std::shared_ptr<GrpcStandardServices> standard_;
  // shared with the calls
  const std::shared_ptr<GrpcCallCount> open_ = std::make_shared<GrpcCallCount>();
  const std::unique_ptr<grpc::AsyncGenericService> service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> no_queue_;
  const std::unique_ptr<Acceptor> acceptor_;    // null: it listens
  const std::unique_ptr<grpc::Server> server_;  // dies before the service that it refers to
};

absl::Status CannotListen(const std::string& address) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address,
                   ": the address is in use or not of this machine; choose another port or stop "
                   "the process that holds it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(GrpcServerOptions options) {
  const size_t colon = options.address.rfind(':');
  if (colon == std::string::npos || colon + 1 == options.address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", options.address, "' to listen on has no port; use host:port"));
  }
  options.services.push_back(WireService(options.local_name));
  auto calls = std::make_shared<ServerCalls>(options.services, options.address);
  const auto standard = std::make_shared<GrpcStandardServices>();
  standard->names = StandardServiceNames();
  for (const Service& each : options.services) {
    standard->names.push_back(each.descriptor->full_name());
  }
  const auto dispatcher = std::make_shared<const GrpcDispatcher>(GrpcDispatcher{
      calls, options.message_bytes_max, std::make_shared<ReceivePool>(), options.local_name,
      options.stream_name, std::make_shared<GrpcServedStreams>(), standard});
  grpc::ServerBuilder builder;
  ApplyServerSettings(options.message_bytes_max, builder);
  int port = 0;
  std::unique_ptr<Acceptor> acceptor;
  if (options.listens) {
    builder.AddListeningPort(options.address, ServerCredentialsOfQueue(), &port);
  } else {
    using Experimental = grpc::ServerBuilder::experimental_type;
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        Experimental::ExternalConnectionType::FROM_FD, ServerCredentialsOfQueue());
  }
  auto service = std::make_unique<grpc::AsyncGenericService>();
  builder.RegisterAsyncGenericService(service.get());
  auto no_queue = builder.AddCompletionQueue();  // gRPC starts no server without
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || (options.listens && port == 0)) return CannotListen(options.address);
  if (options.listens) {
    options.address = absl::StrCat(options.address.substr(0, colon), ":", port);
  }
  return std::make_unique<RawServer>(std::move(options.address), std::move(calls), dispatcher,
                                     std::move(service), std::move(no_queue), std::move(acceptor),
                                     std::move(server));
}

}  // namespace cohort
