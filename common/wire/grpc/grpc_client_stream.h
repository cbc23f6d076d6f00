#pragma once

// The calling end of a call with many messages each way, on the threads of grpc_loop.h. Internal to
// common/wire: only its .cc files include it.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "common/wire/grpc/grpc_loop.h"

namespace cohort {

// Messages are read one after another, as they come. One reaction to reading and one to writing run
// at a time, and OnDone last: when gRPC is done, and nothing is held. Thread-safe.
class GrpcClientStream {
 public:
  virtual ~GrpcClientStream() = default;
  GrpcClientStream(const GrpcClientStream&) = delete;
  GrpcClientStream& operator=(const GrpcClientStream&) = delete;

 protected:
  GrpcClientStream() = default;

  // Starts the call; the first thing to do, once. It goes to the server with the first message. The
  // context lives until OnDone runs.
  void StartCall(grpc::GenericStub& stub, grpc::ClientContext& context, const char* method);
  // Writes a message; one write at a time.
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  // Keeps OnDone from running until RemoveHold: code that writes outside a reaction holds the call.
  void AddHold() { ++left_; }
  void RemoveHold();

  // Takes a message. Returns false if the call has been cancelled: no other message is read then.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // Tells that no other message comes.
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
  grpc::ByteBuffer message_;  // the reader's: one at a time
  grpc::Status status_;
  std::atomic<int> left_{1};  // what OnDone waits for; at first: that the call finishes
};

}  // namespace cohort
