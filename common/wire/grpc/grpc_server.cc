#include "common/wire/grpc/grpc_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/frames/frame_session_server.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_frames.h"
#include "common/wire/grpc/grpc_served_call.h"
#include "common/wire/grpc/grpc_settings.h"
#include "common/wire/grpc/grpc_standard_calls.h"
#include "common/wire/method_table.h"
#include "common/wire/server_calls.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

// Returns the service by which a client's transport asks for the name of this server's unix socket.
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

// The most time that a stopping server spends on sending the answers that it has given.
constexpr std::chrono::milliseconds kFlushTimeMax{500};

// A unary call on the server. Thread-safe.
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
    // The key kHandlerFailureKey tells the caller that a handler failed and not the transport.
    context().AddTrailingMetadata(kHandlerFailureKey, "1");
    StartFinish(ToGrpcStatus(frame.status()));
  }

  void Stop(const std::string& text) override {
    StartFinish(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

 private:
  size_t bytes_max() const { return dispatcher_->message_bytes_max; }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    // The method's name is copied, because the call and its context may end inside Handle.
    const std::string method = context().method();
    dispatcher_->TellNames(context());
    // The request has arrived already, so its bytes are charged to the receive budget without
    // waiting.
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

  // The state that the server's calls share; null once gRPC has ended the call. A service may keep
  // the reply, and with the reply this call, for longer.
  std::shared_ptr<const GrpcDispatcher> dispatcher_;
  // A reference to this call itself, which keeps the call alive until OnDone runs.
  std::shared_ptr<UnaryCall> self_;
};

void Serve(std::unique_ptr<GrpcIncoming> call,
           const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  if (ServeStandardCall(call, dispatcher->standard)) return;
  const std::string& method = call->context->method();
  if (method == kFramesMethod) return ServeFrames(std::move(call), dispatcher);
  UnaryCall::Start(std::move(call), dispatcher);
}

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

// A gRPC server without generated code: it finds a call's handler by the name of the method.
// Thread-safe.
class RawServer final : public GrpcServer {
 public:
  RawServer(std::string address, std::shared_ptr<ServerCalls> calls,
            std::shared_ptr<const GrpcDispatcher> dispatcher,
            std::unique_ptr<grpc::AsyncGenericService> service,
            std::unique_ptr<grpc::ServerCompletionQueue> no_queue,
            std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        calls_(std::move(calls)),
        peers_(dispatcher->peers),
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
    // Open calls are answered first. Then connections of frames end, after their answers were
    // written. In the end, gRPC gets time to send what it has.
    calls_->Stop();
    peers_->CloseAll();
    server_->Shutdown(std::chrono::system_clock::now() + kFlushTimeMax);
    open_->WaitForNone();
    no_queue_->Shutdown();
  }

  std::string address() const override { return address_; }

  void Drain(absl::Duration grace) override {
    // From now on the health service reports that the server does not serve, so that its clients
    // can turn to another server.
    standard_->serving = false;
    calls_->Drain(grace);
  }

  void Take(UniqueFd socket, const std::string& first_bytes) override {
    COHORT_CHECK(acceptor_ != nullptr, "a server that listens gets its connections by itself");
    Acceptor::NewConnectionParameters connection;
    const grpc::Slice bytes(first_bytes);
    if (!first_bytes.empty()) connection.read_buffer = grpc::ByteBuffer(&bytes, 1);
    // gRPC takes over the socket and will close it.
    connection.fd = socket.Release();
    acceptor_->HandleNewConnection(&connection);
  }

 private:
  const std::string address_;
  // The open calls of the server. Shared with the code that serves each of them.
  const std::shared_ptr<ServerCalls> calls_;
  // The open connections of frames. Shared with the code that serves each of them.
  const std::shared_ptr<FramePeers> peers_;
  const std::shared_ptr<GrpcStandardServices> standard_;
  // The number of calls that gRPC has not ended yet. Shared with these calls.
  const std::shared_ptr<GrpcCallCount> open_ = std::make_shared<GrpcCallCount>();
  const std::unique_ptr<grpc::AsyncGenericService> service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> no_queue_;
  // Passes accepted connections to gRPC; null if the gRPC server listens on a port of its own.
  const std::unique_ptr<Acceptor> acceptor_;
  // The gRPC server. It refers to `service_`, and so is destroyed before `service_`.
  const std::unique_ptr<grpc::Server> server_;
};

absl::Status CannotListen(const std::string& address) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address,
                   ": the address is in use or not of this machine; choose another port or stop "
                   "the process that holds it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(GrpcServerOptions options) {
  // Without a port in the address, gRPC would use a default port.
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
      options.stream_name, std::make_shared<FramePeers>(), standard});
  grpc::ServerBuilder builder;
  ApplyServerSettings(options.message_bytes_max, builder);
  int port = 0;
  // A server that does not listen gets its connections by calls of Take.
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
  auto no_queue = builder.AddCompletionQueue();  // gRPC starts no server without a queue of its own
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  // gRPC reports port 0 if it could not listen on the port.
  if (server == nullptr || (options.listens && port == 0)) return CannotListen(options.address);
  if (options.listens) {
    options.address = absl::StrCat(options.address.substr(0, colon), ":", port);
  }
  return std::make_unique<RawServer>(std::move(options.address), std::move(calls), dispatcher,
                                     std::move(service), std::move(no_queue), std::move(acceptor),
                                     std::move(server));
}

}  // namespace cohort
