#pragma once

// The serving end of a gRPC call, on the threads of grpc_loop.h, and the state that the calls of
// one server share. Internal to common/wire: only its .cc files include this header.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/grpc/grpc_loop.h"
#include "common/wire/receive_memory.h"
#include "common/wire/server_calls.h"

namespace cohort {

// The number of calls of one server that gRPC has not ended yet. Thread-safe.
class GrpcCallCount {
 public:
  void Add();
  void Remove();
  void WaitForNone();

 private:
  Mutex mutex_;
  CondVar changed_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The state that gRPC keeps for a call that has arrived or will arrive. Thread-compatible.
struct GrpcIncoming {
  explicit GrpcIncoming(std::shared_ptr<GrpcCallCount> in) : count(std::move(in)) { count->Add(); }
  ~GrpcIncoming() {
    io.reset();
    context.reset();
    count->Remove();
  }
  // The count of the server's calls. Shared with the server, which waits until there are none.
  const std::shared_ptr<GrpcCallCount> count;
  std::unique_ptr<grpc::GenericServerContext> context =
      std::make_unique<grpc::GenericServerContext>();
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> io =
      std::make_unique<grpc::GenericServerAsyncReaderWriter>(context.get());
};

// Starts to accept calls: `serve` gets each call that arrives at the server, until the server shuts
// down.
using ServeIncoming = std::function<void(std::unique_ptr<GrpcIncoming>)>;
void AskForCalls(grpc::AsyncGenericService& service, std::shared_ptr<GrpcCallCount> count,
                 ServeIncoming serve);

// A call at the server. At most one callback about reading (OnMessage, OnReadEnd) and one about
// writing (OnWriteDone) run at a time. OnDone runs last, when gRPC has ended the call. Thread-safe.
class GrpcServedCall {
 public:
  virtual ~GrpcServedCall() = default;
  GrpcServedCall(const GrpcServedCall&) = delete;
  GrpcServedCall& operator=(const GrpcServedCall&) = delete;

 protected:
  explicit GrpcServedCall(std::unique_ptr<GrpcIncoming> call) : call_(std::move(call)) {}

  grpc::GenericServerContext& context() { return *call_->context; }

  // Starts to read messages, one after another as they arrive, until OnMessage returns false.
  void StartReading();
  // Writes a message. OnWriteDone must have run for the message before.
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  // StartWriteAndFinish and StartFinish end the call. One of them must be called once, as the last
  // operation. OnWriteDone does not run for the message of StartWriteAndFinish.
  void StartWriteAndFinish(const grpc::ByteBuffer& message);
  void StartFinish(const grpc::Status& status);

  // Takes a message from the client. Returns false to stop reading until StartReading is called
  // again.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // Reports that no further message will arrive: the client has sent all messages, or is gone.
  virtual void OnReadEnd() = 0;
  virtual void OnWriteDone(bool) {}
  virtual void OnDone() = 0;

 private:
  void HasRead(bool ok);
  void HasWritten(bool ok);
  void Finished(bool ok);
  void Release();

  GrpcEvent read_ = GrpcEvent::To<&GrpcServedCall::HasRead>(*this);
  GrpcEvent written_ = GrpcEvent::To<&GrpcServedCall::HasWritten>(*this);
  GrpcEvent finished_ = GrpcEvent::To<&GrpcServedCall::Finished>(*this);
  std::unique_ptr<GrpcIncoming> call_;
  grpc::ByteBuffer message_;  // the message that is being read
  // The number of events for which OnDone waits: operations under way, and the end of the call.
  std::atomic<int> left_{1};
};

class FramePeers;
struct GrpcStandardServices;

// The state that all calls of one gRPC server use. Thread-safe.
struct GrpcDispatcher {
  std::shared_ptr<ServerCalls> calls;  // the server's open calls, shared with the server
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // memory of received payloads, shared with the payloads
  // The names by which clients reach the server in other ways than over gRPC: `local_name` for
  // clients on the same host, `stream_name` for clients on any host. An empty name means that this
  // way does not exist.
  std::string local_name;
  std::string stream_name;
  // The open connections of frames. Shared with the server, which closes them.
  std::shared_ptr<FramePeers> peers;
  // The state of the health and reflection services, shared with the server.
  std::shared_ptr<GrpcStandardServices> standard;

  // Adds the server's names to the initial metadata of the answer, if the client has asked for the
  // names.
  void TellNames(grpc::GenericServerContext& context) const;
};

}  // namespace cohort
