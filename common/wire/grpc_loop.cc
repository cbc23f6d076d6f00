#include "common/wire/grpc_loop.h"

#include <grpc/grpc.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <pthread.h>

#include <algorithm>
#include <thread>

namespace cohort {

namespace {

// Calls that come are asked for at the one queue, which no builder of a server knows.
class AtOneQueue final : public grpc::Server::GlobalCallbacks {
 public:
  explicit AtOneQueue(grpc::ServerCompletionQueue& queue) : queue_(queue) {}
  void PreServerStart(grpc::Server* server) override {
    grpc_server_register_completion_queue(server->c_server(), queue_.cq(), nullptr);
  }
  void PreSynchronousRequest(grpc::ServerContext*) override {}
  void PostSynchronousRequest(grpc::ServerContext*) override {}

 private:
  grpc::ServerCompletionQueue& queue_;
};

void Run(grpc::ServerCompletionQueue& queue) {
  pthread_setname_np(pthread_self(), "grpc_loop");
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<const GrpcEvent*>(tag)->Tell(ok);
}

// Half of the cores: who else waits at a socket beside them takes the waiting from them.
unsigned Threads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 16U); }

grpc::ServerCompletionQueue* NewQueue() {
  // Only a builder makes one that serves; it need not build.
  grpc::ServerCompletionQueue* const queue = grpc::ServerBuilder().AddCompletionQueue().release();
  grpc::Server::SetGlobalCallbacks(new AtOneQueue(*queue));  // gRPC's from now on
  for (unsigned i = 0; i < Threads(); ++i) std::thread([queue] { Run(*queue); }).detach();
  return queue;
}

}  // namespace

grpc::ServerCompletionQueue& GrpcQueue() {
  static grpc::ServerCompletionQueue* const queue = NewQueue();
  return *queue;
}

}  // namespace cohort
