#include "common/wire/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/grpc_bytes.h"
#include "common/wire/grpc_parts.h"
#include "common/wire/grpc_parts_server.h"
#include "common/wire/grpc_settings.h"
#include "common/wire/grpc_stream_call.h"
#include "common/wire/grpc_stream_server.h"
#include "common/wire/method_table.h"
#include "common/wire/server_calls.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

// What the transports of other processes ask.
Service WireService(const std::string& local_name) {
  Service service;
  service.descriptor = proto::LocalNameRequest::descriptor()->file()->FindServiceByName(
      "WireService");
  service.handlers["LocalName"] =
      MakeHandler<proto::LocalNameRequest, proto::LocalNameResponse>(
          [local_name](Envelope<proto::LocalNameRequest>,
                       TypedReply<proto::LocalNameResponse> reply) {
            Envelope<proto::LocalNameResponse> response;
            response.header.set_name(local_name);
            reply(std::move(response));
          });
  return service;
}

// How long a stopping server may go on sending answers that were given before.
constexpr std::chrono::milliseconds kFlushTimeMax{500};

// One call between gRPC's request and its Finish, whose gRPC objects are gone after it.
// Thread-safe.
class GrpcOpenCall final : public OpenCall {
 public:
  GrpcOpenCall(grpc::CallbackServerContext& context, grpc::ByteBuffer& response,
               size_t message_bytes_max)
      : context_(context),
        reactor_(*context.DefaultReactor()),
        response_(response),
        message_bytes_max_(message_bytes_max) {}

  grpc::ServerUnaryReactor* reactor() { return &reactor_; }

  void Finish(absl::StatusOr<Message> result) override {
    absl::StatusOr<Payload> frame =
        result.ok() ? EncodeFrame(*std::move(result), message_bytes_max_) : result.status();
    if (frame.ok()) {
      response_ = ToByteBuffer(*frame);
      reactor_.Finish(grpc::Status::OK);
      return;
    }
    context_.AddTrailingMetadata(kHandlerFailureKey, "1");
    reactor_.Finish(ToGrpcStatus(frame.status()));
  }

  void Stop(const std::string& text) override {
    reactor_.Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

 private:
  grpc::CallbackServerContext& context_;
  grpc::ServerUnaryReactor& reactor_;
  grpc::ByteBuffer& response_;
  const size_t message_bytes_max_;
};

// All methods that a proto service declares, as raw callback methods: no generated stubs.
// Immutable.
class RawService final : public grpc::Service {
 public:
  RawService(const google::protobuf::ServiceDescriptor& descriptor,
             const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
    names_.reserve(static_cast<size_t>(descriptor.method_count()));  // gRPC keeps pointers
    for (int i = 0; i < descriptor.method_count(); ++i) {
      const std::string& name = names_.emplace_back(FullMethodName(*descriptor.method(i)));
      using grpc::internal::RpcMethod, grpc::internal::RpcServiceMethod;
      const bool streams = descriptor.method(i)->client_streaming();
      AddMethod(new RpcServiceMethod(
          name.c_str(), streams ? RpcMethod::BIDI_STREAMING : RpcMethod::NORMAL_RPC, nullptr));
      MarkMethodRawCallback(i, MakeMethodHandler(dispatcher, name));
    }
  }

 private:
  static grpc::internal::MethodHandler* MakeMethodHandler(
      const std::shared_ptr<const GrpcDispatcher>& dispatcher, const std::string& name) {
    if (name == kPartsMethod) return MakePartsHandler(dispatcher);
    if (name == kCallsMethod) return MakeCallsHandler(dispatcher);
    return MakeUnaryHandler(dispatcher, name);
  }

  static grpc::internal::MethodHandler* MakeUnaryHandler(
      std::shared_ptr<const GrpcDispatcher> dispatcher, std::string method) {
    return new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
        [dispatcher = std::move(dispatcher), method = std::move(method)](
            grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
            grpc::ByteBuffer* response) -> grpc::ServerUnaryReactor* {
          dispatcher->TellNames(*context);
          auto call =
              std::make_shared<GrpcOpenCall>(*context, *response, dispatcher->message_bytes_max);
          grpc::ServerUnaryReactor* const reactor = call->reactor();
          call->SetRoom(dispatcher->calls->TakeRoom(method, request->Length()));
          dispatcher->calls->Handle(
              std::move(call), method,
              DecodeFrame(FromByteBuffer(*request), dispatcher->message_bytes_max));
          return reactor;
        });
  }

  std::vector<std::string> names_;
};

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

class RawServer final : public GrpcServer {
 public:
  RawServer(std::string address, std::shared_ptr<ServerCalls> calls,
            std::shared_ptr<GrpcServedStreams> streams,
            std::vector<std::unique_ptr<RawService>> services,
            std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        calls_(std::move(calls)),
        streams_(std::move(streams)),
        services_(std::move(services)),
        acceptor_(std::move(acceptor)),
        server_(std::move(server)) {}

  ~RawServer() override {
    calls_->Stop();
    streams_->EndAll();
    server_->Shutdown(std::chrono::system_clock::now() + kFlushTimeMax);
  }

  std::string address() const override { return address_; }

  void Drain(absl::Duration grace) override {
    if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
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
  const std::shared_ptr<ServerCalls> calls_;  // shared with what serves its connections
  const std::shared_ptr<GrpcServedStreams> streams_;  // shared with themselves
  const std::vector<std::unique_ptr<RawService>> services_;
  const std::unique_ptr<Acceptor> acceptor_;    // null: it listens
  const std::unique_ptr<grpc::Server> server_;  // dies before the services that it refers to
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
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto calls = std::make_shared<ServerCalls>(options.services, options.address);
  const auto dispatcher = std::make_shared<const GrpcDispatcher>(
      GrpcDispatcher{calls, options.message_bytes_max, std::make_shared<ReceivePool>(),
                     options.local_name, options.stream_name,
                     std::make_shared<GrpcServedStreams>()});
  grpc::ServerBuilder builder;
  ApplyServerSettings(options.message_bytes_max, builder);
  int port = 0;
  std::unique_ptr<Acceptor> acceptor;
  if (options.listens) {
    builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  } else {
    using Experimental = grpc::ServerBuilder::experimental_type;
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        Experimental::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  }
  std::vector<std::unique_ptr<RawService>> services;
  for (const Service& service : options.services) {
    services.push_back(std::make_unique<RawService>(*service.descriptor, dispatcher));
    builder.RegisterService(services.back().get());
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || (options.listens && port == 0)) return CannotListen(options.address);
  if (options.listens) {
    options.address = absl::StrCat(options.address.substr(0, colon), ":", port);
  }
  return std::make_unique<RawServer>(std::move(options.address), std::move(calls),
                                     dispatcher->streams, std::move(services),
                                     std::move(acceptor), std::move(server));
}

}  // namespace cohort
