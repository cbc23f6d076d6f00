#pragma once

// The threads on which gRPC runs in this process. They wait at one completion queue, which all
// calls of all channels and servers share, and a thread that is woken by a socket handles what came
// itself. (gRPC's own callback threads hand the waiting on to one another at each event, and the
// event to a third: on a machine with few cores that costs more than the call. docs/PERFORMANCE.md
// has the figures.) Internal to common/wire: only its .cc files include it.

#include <grpcpp/completion_queue.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

namespace cohort {

// The tag that gRPC is given with an operation, and through which it tells the operation's end.
// Belongs to the object that it tells, which lives until then. Thread-safe.
class GrpcEvent {
 public:
  template <auto kTold, typename T>
  static GrpcEvent To(T& object) {
    return GrpcEvent(&object, [](void* told, bool ok) { (static_cast<T*>(told)->*kTold)(ok); });
  }

  void Tell(bool ok) const { tell_(object_, ok); }
  void* tag() { return this; }

 private:
  using Function = void (*)(void* object, bool ok);
  GrpcEvent(void* object, Function tell) : object_(object), tell_(tell) {}

  void* const object_;
  const Function tell_;
};

// Returns the queue of this process. Every tag is a GrpcEvent. The queue never ends.
grpc::ServerCompletionQueue& GrpcQueue();

// Returns credentials for the ports of a server whose calls are asked for at that queue. They
// secure nothing.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOfQueue();

}  // namespace cohort
