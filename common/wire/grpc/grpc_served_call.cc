#include "common/wire/grpc/grpc_served_call.h"

#include <utility>

#include "common/wire/grpc/grpc_bytes.h"

namespace cohort {

namespace {

// The number of requests for a call that gRPC has at a time: so many calls may arrive while earlier
// calls are being handled.
constexpr int kAskedAtOnce = 4;

// Requests from gRPC one incoming call after another. Deletes itself when the server shuts down.
class Asking {
 public:
  Asking(grpc::AsyncGenericService& service, std::shared_ptr<GrpcCallCount> count,
         ServeIncoming serve)
      : service_(service), count_(std::move(count)), serve_(std::move(serve)) {}

  void Ask() {
    next_ = std::make_unique<GrpcIncoming>(count_);
    service_.RequestCall(next_->context.get(), next_->io.get(), &GrpcQueue(), &GrpcQueue(),
                         came_.tag());
  }

 private:
  void Came(bool ok) {
    // A request for a call fails only when the server shuts down.
    if (!ok) {
      const std::unique_ptr<Asking> self(this);
      return;
    }
    std::unique_ptr<GrpcIncoming> call = std::move(next_);
    // `serve_` is copied, because another thread may delete this object after Ask.
    const ServeIncoming serve = serve_;
    Ask();
    serve(std::move(call));
  }

  GrpcEvent came_ = GrpcEvent::To<&Asking::Came>(*this);
  grpc::AsyncGenericService& service_;
  // The count of the server's calls. Shared with the server, which waits until there are none.
  const std::shared_ptr<GrpcCallCount> count_;
  const ServeIncoming serve_;
  std::unique_ptr<GrpcIncoming> next_;
};

}  // namespace

void GrpcCallCount::Add() {
  MutexLock lock(mutex_);
  ++calls_;
}
void GrpcCallCount::Remove() {
  MutexLock lock(mutex_);
  if (--calls_ == 0) changed_.NotifyAll();
}
void GrpcCallCount::WaitForNone() {
  MutexLock lock(mutex_);
  while (calls_ > 0) changed_.Wait(mutex_);
}

void AskForCalls(grpc::AsyncGenericService& service, std::shared_ptr<GrpcCallCount> count,
                 ServeIncoming serve) {
  for (int i = 0; i < kAskedAtOnce; ++i) (new Asking(service, count, serve))->Ask();
}

void GrpcServedCall::StartReading() {
  ++left_;
  call_->io->Read(&message_, read_.tag());
}

void GrpcServedCall::StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  ++left_;
  call_->io->Write(message, options, written_.tag());
}

void GrpcServedCall::StartWriteAndFinish(const grpc::ByteBuffer& message) {
  call_->io->WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, finished_.tag());
}

void GrpcServedCall::StartFinish(const grpc::Status& status) {
  call_->io->Finish(status, finished_.tag());
}

void GrpcServedCall::HasRead(bool ok) {
  const bool more = ok && OnMessage(message_);
  message_.Clear();
  if (more) {
    call_->io->Read(&message_, read_.tag());
    return;
  }
  if (!ok) OnReadEnd();
  Release();
}

void GrpcServedCall::HasWritten(bool ok) {
  OnWriteDone(ok);
  Release();
}

void GrpcServedCall::Finished(bool) { Release(); }

void GrpcServedCall::Release() {
  if (--left_ > 0) return;
  // gRPC's state of the call is destroyed first, because OnDone may delete this object.
  call_.reset();
  OnDone();
}

void GrpcDispatcher::TellNames(grpc::GenericServerContext& context) const {
  // A client asks for the server's names by sending the key kLocalNameKey, with any value.
  if (context.client_metadata().count(kLocalNameKey) == 0) return;
  if (!local_name.empty()) context.AddInitialMetadata(kLocalNameKey, local_name);
  if (!stream_name.empty()) context.AddInitialMetadata(kStreamNameKey, stream_name);
}

}  // namespace cohort
