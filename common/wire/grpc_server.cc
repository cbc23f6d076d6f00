#include "common/wire/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/grpc_bytes.h"
#include "common/wire/grpc_settings.h"
#include "common/wire/method_table.h"
#include "common/wire/reply_guard.h"

namespace cohort {

namespace {

// How long a stopping server may go on sending answers that were given before.
constexpr std::chrono::milliseconds kFlushTimeMax{500};

// One call between gRPC's request and its Finish. Thread-safe.
class OpenCall {
 public:
  OpenCall(grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
      : context_(context), reactor_(*context.DefaultReactor()), response_(response) {}

  grpc::ServerUnaryReactor* reactor() { return &reactor_; }

  // The winner of answer and stop may touch gRPC's objects, which are gone after its Finish.
  bool Claim() { return !claimed_.exchange(true); }

  void FinishClaimed(absl::StatusOr<Message> result, size_t message_bytes_max) {
    absl::StatusOr<Payload> frame =
        result.ok() ? EncodeFrame(*std::move(result), message_bytes_max) : result.status();
    if (frame.ok()) {
      response_ = ToByteBuffer(*frame);
      reactor_.Finish(grpc::Status::OK);
      return;
    }
    context_.AddTrailingMetadata(kHandlerFailureKey, "1");
    reactor_.Finish(ToGrpcStatus(frame.status()));
  }

  // A failure of the transport, not of the handler.
  void StopClaimed(const std::string& text) {
    reactor_.Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  }

 private:
  grpc::CallbackServerContext& context_;
  grpc::ServerUnaryReactor& reactor_;
  grpc::ByteBuffer& response_;
  std::atomic<bool> claimed_{false};
};

// The calls of a server, so that Drain can wait for them and the end can answer them. Thread-safe.
class OpenCalls {
 public:
  // False when no new call is taken. Each true is followed by one HandlerReturned.
  bool Add(const std::shared_ptr<OpenCall>& call) {
    MutexLock lock(mutex_);
    if (!accepting_) return false;
    open_.insert(call);
    ++running_;
    return true;
  }

  void HandlerReturned() {
    MutexLock lock(mutex_);
    if (--running_ == 0 && !accepting_) changed_.NotifyAll();
  }

  void Remove(const std::shared_ptr<OpenCall>& call) {
    MutexLock lock(mutex_);
    open_.erase(call);
    if (open_.empty() && !accepting_) changed_.NotifyAll();
  }

  void Drain(absl::Duration grace) {
    const auto end =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(BoundedWait(grace));
    MutexLock lock(mutex_);
    accepting_ = false;
    while (!open_.empty()) {
      const auto left = end - std::chrono::steady_clock::now();
      if (left.count() <= 0) return;
      changed_.WaitFor(mutex_, absl::FromChrono(left));
    }
  }

  void Stop(const std::string& text) {
    std::set<std::shared_ptr<OpenCall>> open;
    {
      MutexLock lock(mutex_);
      accepting_ = false;
      open.swap(open_);
    }
    for (const std::shared_ptr<OpenCall>& call : open) {
      if (call->Claim()) call->StopClaimed(text);
    }
    MutexLock lock(mutex_);
    while (running_ > 0) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::set<std::shared_ptr<OpenCall>> open_ ABSL_GUARDED_BY(mutex_);  // the order is never used
  int running_ ABSL_GUARDED_BY(mutex_) = 0;                           // handlers inside their call
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
};

// What all methods of a server share. Thread-safe.
struct Dispatcher {
  Dispatcher(const std::vector<Service>& services, std::string address_in, size_t bytes_max)
      : methods(services), address(std::move(address_in)), message_bytes_max(bytes_max) {}

  const MethodTable methods;
  const std::string address;
  const size_t message_bytes_max;
  OpenCalls calls;
};

void CallHandler(const std::shared_ptr<Dispatcher>& dispatcher, const Handler* handler,
                 const std::string& method, const grpc::ByteBuffer& request, Reply reply) {
  if (handler == nullptr) return reply(UnknownMethod(method, dispatcher->address));
  absl::StatusOr<Message> message =
      DecodeFrame(FromByteBuffer(request), dispatcher->message_bytes_max);
  if (!message.ok()) return reply(message.status());
  (*handler)(*std::move(message), GuardReply(method, std::move(reply)));
}

// All methods that a proto service declares, as raw callback methods: no generated stubs.
// Immutable.
class RawService final : public grpc::Service {
 public:
  RawService(const google::protobuf::ServiceDescriptor& descriptor,
             const std::shared_ptr<Dispatcher>& dispatcher) {
    names_.reserve(static_cast<size_t>(descriptor.method_count()));  // gRPC keeps pointers
    for (int i = 0; i < descriptor.method_count(); ++i) {
      const std::string& name = names_.emplace_back(FullMethodName(*descriptor.method(i)));
      using grpc::internal::RpcMethod, grpc::internal::RpcServiceMethod;
      AddMethod(new RpcServiceMethod(name.c_str(), RpcMethod::NORMAL_RPC, nullptr));
      MarkMethodRawCallback(i, MakeUnaryHandler(dispatcher, name));
    }
  }

 private:
  static grpc::internal::MethodHandler* MakeUnaryHandler(std::shared_ptr<Dispatcher> dispatcher,
                                                         std::string method) {
    const Handler* handler = dispatcher->methods.Find(method);
    return new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
        [dispatcher = std::move(dispatcher), handler, method = std::move(method)](
            grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
            grpc::ByteBuffer* response) -> grpc::ServerUnaryReactor* {
          auto call = std::make_shared<OpenCall>(*context, *response);
          grpc::ServerUnaryReactor* const reactor = call->reactor();
          if (!dispatcher->calls.Add(call)) {
            if (call->Claim()) call->StopClaimed("the server is stopping");
            return reactor;
          }
          Reply reply = [dispatcher, call](absl::StatusOr<Message> result) {
            if (!call->Claim()) return;
            call->FinishClaimed(std::move(result), dispatcher->message_bytes_max);
            dispatcher->calls.Remove(call);
          };
          CallHandler(dispatcher, handler, method, *request, std::move(reply));
          dispatcher->calls.HandlerReturned();
          return reactor;
        });
  }

  std::vector<std::string> names_;
};

class GrpcServer final : public Server {
 public:
  GrpcServer(std::string address, std::shared_ptr<Dispatcher> dispatcher,
             std::vector<std::unique_ptr<RawService>> services,
             std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        dispatcher_(std::move(dispatcher)),
        services_(std::move(services)),
        server_(std::move(server)) {}

  ~GrpcServer() override {
    dispatcher_->calls.Stop(absl::StrCat("the server at ", address_, " stopped"));
    server_->Shutdown(std::chrono::system_clock::now() + kFlushTimeMax);
  }

  std::string address() const override { return address_; }

  void Drain(absl::Duration grace) override {
    if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
    dispatcher_->calls.Drain(grace);
  }

 private:
  const std::string address_;
  const std::shared_ptr<Dispatcher> dispatcher_;  // shared: replies that come late hold it
  const std::vector<std::unique_ptr<RawService>> services_;
  const std::unique_ptr<grpc::Server> server_;  // dies before the services that it refers to
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> StartGrpcServer(GrpcServerOptions options) {
  const size_t colon = options.address.rfind(':');
  if (colon == std::string::npos || colon + 1 == options.address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", options.address, "' to listen on has no port; use host:port"));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto dispatcher =
      std::make_shared<Dispatcher>(options.services, options.address, options.message_bytes_max);
  grpc::ServerBuilder builder;
  ApplyServerSettings(options.message_bytes_max, builder);
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  std::vector<std::unique_ptr<RawService>> services;
  for (const Service& service : options.services) {
    services.push_back(std::make_unique<RawService>(*service.descriptor, dispatcher));
    builder.RegisterService(services.back().get());
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address,
                     ": the address is in use or not of this machine; choose another port or stop "
                     "the process that holds it"));
  }
  return std::make_unique<GrpcServer>(absl::StrCat(options.address.substr(0, colon), ":", port),
                                      std::move(dispatcher), std::move(services),
                                      std::move(server));
}

}  // namespace cohort
