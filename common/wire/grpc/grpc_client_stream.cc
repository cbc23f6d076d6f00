#include "common/wire/grpc/grpc_client_stream.h"

namespace cohort {

void GrpcClientStream::StartCall(grpc::GenericStub& stub, grpc::ClientContext& context,
                                 const char* method) {
  // The call's metadata are corked: gRPC sends them together with the first message. Otherwise the
  // first write would have to wait until StartCall has ended.
  context.set_initial_metadata_corked(true);
  io_ = stub.PrepareCall(&context, method, &GrpcQueue());
  io_->StartCall(nullptr);
  // Reading starts at once, so that this end notices when the server ends the call.
  io_->Read(&message_, read_.tag());
}

void GrpcClientStream::StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  AddHold();
  io_->Write(message, options, written_.tag());
}

void GrpcClientStream::RemoveHold() {
  if (--left_ > 0) return;
  // The stream dies before the call's context, because gRPC has placed the stream in memory of the
  // context.
  io_.reset();
  OnDone(status_);
}

void GrpcClientStream::HasRead(bool ok) {
  // The hold keeps OnDone from running while OnMessage or OnReadEnd runs.
  AddHold();
  const bool more = ok && OnMessage(message_);
  message_.Clear();
  if (more) {
    io_->Read(&message_, read_.tag());
  } else {
    OnReadEnd();
    // gRPC gives the call's status only after the last message was read.
    io_->Finish(&status_, finished_.tag());
  }
  RemoveHold();
}

void GrpcClientStream::HasWritten(bool ok) {
  OnWriteDone(ok);
  RemoveHold();
}

void GrpcClientStream::Finished(bool) { RemoveHold(); }

}  // namespace cohort
