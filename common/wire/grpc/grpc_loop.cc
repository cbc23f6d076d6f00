#include "common/wire/grpc/grpc_loop.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/server_builder.h>
#include <pthread.h>

#include <algorithm>
#include <thread>

#include "common/base/machine.h"

namespace cohort {

namespace {

// Registers the process's completion queue with a gRPC server. A ServerBuilder itself accepts only
// queues that it has made. Credentials are the only objects that see the server before it starts,
// so these credentials register the queue. Thread-safe.
class QueueCredentials final : public grpc::ServerCredentials {
 public:
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_register_completion_queue(server, GrpcQueue().cq(), nullptr);
    grpc_server_credentials* const insecure = grpc_insecure_server_credentials_create();
    const int port = grpc_server_add_http2_port(server, address.c_str(), insecure);
    grpc_server_credentials_release(insecure);
    return port;
  }
};

// Handles the events of the completion queue. Every gRPC thread of this process runs this function.
void Run(grpc::ServerCompletionQueue& queue) {
  pthread_setname_np(pthread_self(), "grpc_loop");
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<const GrpcEvent*>(tag)->Tell(ok);
}

// Returns the number of threads that wait at the completion queue: half of the cores, 1 to 16. With
// more threads, the job of waiting at the sockets would move from one thread to another.
int Threads() { return std::clamp(ProcessorCount() / 2, 1, 16); }

grpc::ServerCompletionQueue* NewQueue() {
  // Only a ServerBuilder makes a queue that servers can use. The builder need not build a server.
  grpc::ServerCompletionQueue* const queue = grpc::ServerBuilder().AddCompletionQueue().release();
  for (int i = 0; i < Threads(); ++i) std::thread([queue] { Run(*queue); }).detach();
  return queue;
}

}  // namespace

grpc::ServerCompletionQueue& GrpcQueue() {
  // The queue is never destroyed, because detached threads use the queue until the process ends.
  static grpc::ServerCompletionQueue* const queue = NewQueue();
  return *queue;
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOfQueue() {
  return std::make_shared<QueueCredentials>();
}

}  // namespace cohort
