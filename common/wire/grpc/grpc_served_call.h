#pragma once

// The serving end of a call, on the threads of grpc_loop.h. Internal to common/wire: only its .cc
// files include it.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>

#include "common/base/mutex.h"
#include "common/wire/grpc/grpc_loop.h"

namespace cohort {

// The number of a server's calls that gRPC is not done with. Thread-safe.
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

// The state that gRPC keeps of a call that came, or will come. Thread-compatible.
struct GrpcIncoming {
  explicit GrpcIncoming(std::shared_ptr<GrpcCallCount> in) : count(std::move(in)) { count->Add(); }
  ~GrpcIncoming() {
    io.reset();
    context.reset();
    count->Remove();
  }
  const std::shared_ptr<GrpcCallCount> count;  // shared with the server, which waits for all
  std::unique_ptr<grpc::GenericServerContext> context =
      std::make_unique<grpc::GenericServerContext>();
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> io =
      std::make_unique<grpc::GenericServerAsyncReaderWriter>(context.get());
};

// Serves each call that comes to the server, until the server shuts down.
using ServeIncoming = std::function<void(std::unique_ptr<GrpcIncoming>)>;
void AskForCalls(grpc::AsyncGenericService& service, std::shared_ptr<GrpcCallCount> count,
                 ServeIncoming serve);

// A call on the server. One reaction to reading and one to writing run at a time, and OnDone last,
// when gRPC is done. Thread-safe.
class GrpcServedCall {
 public:
  virtual ~GrpcServedCall() = default;
  GrpcServedCall(const GrpcServedCall&) = delete;
  GrpcServedCall& operator=(const GrpcServedCall&) = delete;

 protected:
  explicit GrpcServedCall(std::unique_ptr<GrpcIncoming> call) : call_(std::move(call)) {}

  grpc::GenericServerContext& context() { return *call_->context; }

  // Messages are read one after another, as they come, until a reaction ends that.
  void StartReading();
  // Writes a message; one write at a time.
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options = {});
  // Ends the call, once, as the last operation that is started. StartWriteAndFinish counts as
  // written at the end of the call.
  void StartWriteAndFinish(const grpc::ByteBuffer& message);
  void StartFinish(const grpc::Status& status);

  // Takes a message. Returns false to read no other until reading is started again.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // Tells that no other message comes: the caller has no more, or is gone.
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
  grpc::ByteBuffer message_;  // the reader's: one at a time
  std::atomic<int> left_{1};  // what OnDone waits for; at first: that it finishes
};

}  // namespace cohort
