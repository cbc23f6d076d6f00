#include "common/wire/grpc/grpc_client_stream.h"

namespace cohort {

void GrpcClientStream::StartCall(grpc::GenericStub& stub, grpc::ClientContext& context,
                                 const char* method) {
  context.set_initial_metadata_corked(true);  // else a write has to wait for the start's end
  io_ = stub.PrepareCall(&context, method, &GrpcQueue());
  io_->StartCall(nullptr);
  io_->Read(&message_, read_.tag());
}

void GrpcClientStream::StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  AddHold();
  io_->Write(message, options, written_.tag());
}

void GrpcClientStream::RemoveHold() {
  if (--left_ > 0) return;
  io_.reset();  // it lies in the call's memory, which goes with the context
  OnDone(status_);
}

void GrpcClientStream::HasRead(bool ok) {
  AddHold();
  const bool more = ok && OnMessage(message_);
  message_.Clear();
  if (more) {
    io_->Read(&message_, read_.tag());
  } else {
    OnReadEnd();
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
