#pragma once

// The threads on which gRPC runs in this process. The threads wait at one completion queue, which
// all calls of all channels and servers share. A thread that a socket wakes handles the event
// itself. (gRPC's own callback threads pass the waiting to one another at each event, and the event
// to a third thread. On a machine with few cores that costs more than the call; docs/PERFORMANCE.md
// has the figures.) Internal to common/wire: only its .cc files include this header.

#include <grpcpp/completion_queue.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

namespace cohort {

// A tag that gRPC gets with an operation, and through which gRPC reports the end of the operation.
// The tag is a member of the object to which it reports, so the object must live until the
// operation has ended. Thread-safe.
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

// Returns the completion queue of this process. Every tag in the queue is a GrpcEvent. The queue
// never ends.
grpc::ServerCompletionQueue& GrpcQueue();

// Returns credentials for the ports of a server whose calls are requested at GrpcQueue(). The
// credentials encrypt nothing.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOfQueue();

}  // namespace cohort
