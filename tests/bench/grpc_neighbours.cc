#include "tests/bench/grpc_neighbours.h"

#include <pthread.h>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort::bench {

void GrpcOutbox::Add(grpc::ByteBuffer message) {
  MutexLock lock(mutex_);
  unsent_.push_back(std::move(message));
  if (!writing_) Next();
}

void GrpcOutbox::Next() {
  writing_ = !unsent_.empty();
  if (!writing_) return message_.Clear();
  message_ = std::move(unsent_.front());
  unsent_.pop_front();
  write_(message_, written_);
}

void GrpcOutbox::Written(bool ok) {
  MutexLock lock(mutex_);
  if (!ok) unsent_.clear();  // nobody reads them any more
  Next();
}

absl::StatusOr<std::unique_ptr<GrpcNeighbours>> GrpcNeighbours::Make(const RankPlace& place) {
  std::unique_ptr<GrpcNeighbours> neighbours(new GrpcNeighbours);
  RETURN_IF_ERROR(neighbours->Listen(place));
  RETURN_IF_ERROR(neighbours->Connect(place));
  return neighbours;
}

absl::Status GrpcNeighbours::Listen(const RankPlace& place) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
      .SetMaxReceiveMessageSize(-1)
      .RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::UnavailableError("a gRPC server for the rank before");
  return LeaveText(place, absl::StrCat(place.rank), absl::StrCat(port));
}

absl::Status GrpcNeighbours::Connect(const RankPlace& place) {
  ASSIGN_OR_RETURN(const std::string port,
                   AwaitText(place, absl::StrCat((place.rank + 1) % place.ranks)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
      "127.0.0.1:" + port, grpc::InsecureChannelCredentials(), arguments));
  bool came = false, started = false;
  GrpcTag comes{[&came](bool ok) { came = ok; }}, starts{[&started](bool ok) { started = ok; }};
  service_.RequestCall(&in_context_, &in_, queue_.get(), queue_.get(), &comes);
  out_ = stub_->PrepareCall(&out_context_, "/none/Stream", queue_.get());
  out_->StartCall(&starts);
  for (int events = 0; events < 2; ++events) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_->Next(&tag, &ok)) static_cast<GrpcTag*>(tag)->told(ok);
  }
  return came && started ? absl::OkStatus() : absl::UnavailableError("a stream between ranks");
}

// What is read is begun on the queue's thread alone, so that it is not while that ends.
void GrpcNeighbours::Start(Reactions reactions) {
  reactions_ = std::move(reactions);
  message_read_.told = [this](bool ok) {
    if (ending_) return;
    if (!ok) return reactions_.broken("the rank before ended it");
    const grpc::ByteBuffer message = message_;
    ReadMessage();
    reactions_.message(message);
  };
  answer_read_.told = [this](bool ok) {
    if (ending_) return;
    if (!ok) return out_->Finish(&end_, &finished_);
    ReadAnswer();
    reactions_.answer();
  };
  finished_.told = [this](bool) {
    if (!ending_) reactions_.broken(end_.error_message());
  };
  later_.told = [this](bool) {
    if (!ending_) return reactions_.later();
    out_context_.TryCancel();
    queue_->Shutdown();
  };
  ReadMessage();
  ReadAnswer();
  thread_ = std::thread([this] { Run(); });
}

GrpcNeighbours::~GrpcNeighbours() {
  ending_ = true;
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  if (!thread_.joinable()) return;
  RunLater();
  thread_.join();
}

void GrpcNeighbours::Answer() {
  const grpc::Slice nothing;
  answers_.Add(grpc::ByteBuffer(&nothing, 1));
}

void GrpcNeighbours::RunLater() {
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &later_);
}

void GrpcNeighbours::Run() {
  pthread_setname_np(pthread_self(), "grpc_neighbours");
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<GrpcTag*>(tag)->told(ok);
}

void GrpcNeighbours::ReadMessage() {
  message_.Clear();
  in_.Read(&message_, &message_read_);
}

void GrpcNeighbours::ReadAnswer() {
  answer_.Clear();
  out_->Read(&answer_, &answer_read_);
}

}  // namespace cohort::bench
