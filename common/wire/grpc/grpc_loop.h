#pragma once

// The threads on which gRPC runs in this process. The threads wait at one completion queue, which
// all calls of all channels and servers share. A thread that is woken by a socket handles the
// socket's event itself. (gRPC's own callback threads pass the waiting to one another at each
// event, and pass the event to a third thread. On a machine with few cores, this costs more than
// the call; docs/lab/transport.md has the figures.) Internal to common/wire: only its .cc files
// include this header.

#include <grpcpp/completion_queue.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

namespace cohort {

// The tag of an operation of gRPC, through which gRPC reports that the operation has ended. The tag
// is a member of the object to which it reports, so this object must live until the operation has
// ended. Thread-safe.
class GrpcEvent {
 public:
  template <auto kReport, typename T>
  static GrpcEvent To(T& object) {
    return GrpcEvent(&object,
                     [](void* receiver, bool ok) { (static_cast<T*>(receiver)->*kReport)(ok); });
  }

  void Tell(bool ok) const { tell_(object_, ok); }
  void* tag() { return this; }

 private:
  using Function = void (*)(void* object, bool ok);
  GrpcEvent(void* object, Function tell) : object_(object), tell_(tell) {}

  void* const object_;
  const Function tell_;
};

// Returns the completion queue of this process. Every tag in the queue is a GrpcEvent. The queue is
// never shut down.
grpc::ServerCompletionQueue& GrpcQueue();

// Returns credentials for the ports of a server whose calls are requested at GrpcQueue().
// Connections are not encrypted.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOfQueue();

}  // namespace cohort
