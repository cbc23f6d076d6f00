#pragma once

// The calling end of a bidirectional gRPC call, with many messages each way, on the threads of
// grpc_loop.h. Internal to common/wire: only its .cc files include this header.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "common/wire/grpc/grpc_loop.h"

namespace cohort {

// A bidirectional call. Messages are read one after another, as they arrive. At most one callback
// about reading (OnMessage, OnReadEnd) and one about writing (OnWriteDone) run at a time. OnDone
// runs last, when gRPC has ended the call and every hold (AddHold) was removed. Thread-safe.
class GrpcClientStream {
 public:
  virtual ~GrpcClientStream() = default;
  GrpcClientStream(const GrpcClientStream&) = delete;
  GrpcClientStream& operator=(const GrpcClientStream&) = delete;

 protected:
  GrpcClientStream() = default;

  // Starts the call. Must be called first, and once. gRPC sends the call's metadata together with
  // the first message. `context` must live until OnDone runs.
  void StartCall(grpc::GenericStub& stub, grpc::ClientContext& context, const char* method);
  // Writes a message. OnWriteDone must have run for the message before.
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  // Keeps OnDone from running until RemoveHold is called. Code that writes outside a callback of
  // this class needs a hold.
  void AddHold() { ++left_; }
  void RemoveHold();

  // Takes a message from the server. Returns false if this end has cancelled the call; then no
  // further message is read.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // Reports that no further message will arrive.
  virtual void OnReadEnd() {}
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnDone(const grpc::Status& status) = 0;

 private:
  void HasRead(bool ok);
  void HasWritten(bool ok);
  void Finished(bool ok);

  GrpcEvent read_ = GrpcEvent::To<&GrpcClientStream::HasRead>(*this);
  GrpcEvent written_ = GrpcEvent::To<&GrpcClientStream::HasWritten>(*this);
  GrpcEvent finished_ = GrpcEvent::To<&GrpcClientStream::Finished>(*this);
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> io_;
  grpc::ByteBuffer message_;  // the message that is being read
  grpc::Status status_;
  // The number of events for which OnDone waits: holds, writes under way, and the end of the call.
  std::atomic<int> left_{1};
};

}  // namespace cohort
