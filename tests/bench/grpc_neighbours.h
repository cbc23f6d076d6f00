#pragma once

// Streams of gRPC from each rank of a ring to the next with nothing of the project's on them: what
// the limits of gRPC are measured with. One completion queue and one thread, as the project has
// (common/wire/grpc/grpc_loop.h): gRPC's callback threads are slower.

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

// Something that gRPC tells the end of. Thread-compatible.
struct GrpcTag {
  std::function<void(bool ok)> told;
};

// Gives gRPC one message after another. Thread-safe.
class GrpcOutbox {
 public:
  using Write = std::function<void(const grpc::ByteBuffer& message, GrpcTag& written)>;
  explicit GrpcOutbox(Write write) : write_(std::move(write)) {}
  void Add(grpc::ByteBuffer message);

 private:
  void Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Written(bool ok);

  const Write write_;
  GrpcTag written_{[this](bool ok) { Written(ok); }};
  Mutex mutex_;
  std::deque<grpc::ByteBuffer> unsent_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer message_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread-safe.
class GrpcNeighbours {
 public:
  // They run on the thread of the queue, one at a time.
  struct Reactions {
    std::function<void(const grpc::ByteBuffer& message)> message;  // of the rank before, in order
    std::function<void()> answer;                                  // of the next one
    std::function<void()> later;                                   // after RunLater
    std::function<void(const std::string& why)> broken;            // a stream between ranks
  };

  // Connects. Errors: UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<GrpcNeighbours>> Make(const RankPlace& place);
  ~GrpcNeighbours();
  GrpcNeighbours(const GrpcNeighbours&) = delete;
  GrpcNeighbours& operator=(const GrpcNeighbours&) = delete;

  // Once, before anything is sent.
  void Start(Reactions reactions);
  // To the next rank.
  void Send(grpc::ByteBuffer message) { messages_.Add(std::move(message)); }
  // To the rank before, with nothing.
  void Answer();
  // One at a time: not before the reaction has begun.
  void RunLater();

 private:
  GrpcNeighbours() = default;
  absl::Status Listen(const RankPlace& place);
  absl::Status Connect(const RankPlace& place);
  void Run();
  void ReadMessage();
  void ReadAnswer();

  Reactions reactions_;
  std::atomic<bool> ending_{false};
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  grpc::GenericServerContext in_context_;
  grpc::GenericServerAsyncReaderWriter in_{&in_context_};
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext out_context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> out_;
  grpc::ByteBuffer message_, answer_;
  GrpcTag message_read_, answer_read_, finished_, later_;
  grpc::Status end_;
  std::unique_ptr<grpc::Alarm> alarm_;
  GrpcOutbox messages_{[this](const grpc::ByteBuffer& message, GrpcTag& written) {
    out_->Write(message, &written);
  }};
  GrpcOutbox answers_{
      [this](const grpc::ByteBuffer& message, GrpcTag& written) { in_.Write(message, &written); }};
  std::thread thread_;
};

}  // namespace cohort::bench
