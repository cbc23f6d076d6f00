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

// A builder of servers takes no queue that another made; of what it calls before the server starts
// this alone gets to see the server. Thread-safe.
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

void Run(grpc::ServerCompletionQueue& queue) {
  pthread_setname_np(pthread_self(), "grpc_loop");
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<const GrpcEvent*>(tag)->Tell(ok);
}

// Half of the cores: other threads that wait at a socket beside them take the waiting from them.
int Threads() { return std::clamp(ProcessorCount() / 2, 1, 16); }

grpc::ServerCompletionQueue* NewQueue() {
  // Only a builder makes a queue that serves; no server has to be built.
  grpc::ServerCompletionQueue* const queue = grpc::ServerBuilder().AddCompletionQueue().release();
  for (int i = 0; i < Threads(); ++i) std::thread([queue] { Run(*queue); }).detach();
  return queue;
}

}  // namespace

grpc::ServerCompletionQueue& GrpcQueue() {
  static grpc::ServerCompletionQueue* const queue = NewQueue();
  return *queue;
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOfQueue() {
  return std::make_shared<QueueCredentials>();
}

}  // namespace cohort
