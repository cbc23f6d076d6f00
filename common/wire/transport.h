#pragma once

// The way tasks reach each other. A server listens with handlers; a channel starts calls. Every
// call has a deadline and can be cancelled. Three implementations pass one conformance suite: gRPC
// (grpc_transport.h), in-process (inprocess_transport.h) and simulated (sim_transport.h).
//
// A handler and a completion run on a thread of the transport, so neither may block: move the
// message to a strand and return. A reply may be sent from any thread, once; a handler that drops
// its reply unsent answers INTERNAL.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire/byte_budget.h"
#include "common/wire/message.h"
#include "common/wire/receive_place.h"
#include "google/protobuf/descriptor.h"

namespace cohort {

using Reply = absl::AnyInvocable<void(absl::StatusOr<Message>)>;
using Handler = std::function<void(Message request, Reply reply)>;

struct Service {
  const google::protobuf::ServiceDescriptor* descriptor = nullptr;
  std::map<std::string, Handler>
      handlers;  // by method name, "Pull"; a method without one is UNIMPLEMENTED
  // Places for payloads, by method name. A transport that reads all payloads into memory of its own
  // asks for none.
  std::map<std::string, FindPlace> places = {};
  // The budget of the payloads of requests, from before their first byte is received until they are
  // answered. Calls with a large request (kUnaskedBytesMax) wait for room in it before their bytes
  // are sent. Shared with calls under way. Null: no bound.
  std::shared_ptr<ByteBudget> receive_budget = nullptr;
};

// Thread-safe.
class Server {
 public:
  // Stops at once: open calls fail with UNAVAILABLE. Waits for handlers that are inside their call,
  // so none runs when it returns; not from a handler.
  virtual ~Server() = default;

  // Returns host:port with the port that was really bound.
  virtual std::string address() const = 0;

  // Refuses new calls, waits up to `grace` for open ones. Idempotent. Blocks; not from a handler.
  virtual void Drain(absl::Duration grace) = 0;
};

// Thread-safe.
class Call {
 public:
  // Does not cancel: a call that is no longer of interest ends by itself.
  virtual ~Call() = default;

  // Cancels the call: the completion runs with CANCELLED unless it already ran. The memory of a
  // payload up to kFrameBytesMax is released soon, whatever the other end does.
  virtual void Cancel() = 0;
};

// Thread-safe.
class Channel {
 public:
  virtual ~Channel() = default;

  // Starts a call; `method` is "/cohort.proto.PsService/Pull". `done` runs exactly once, never
  // inside this call. Errors from the transport itself: UNAVAILABLE (no connection, or it broke),
  // DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (message too large). Errors from the handler
  // arrive with code, message and ErrorDetail.
  virtual std::unique_ptr<Call> Start(absl::string_view method, Message request,
                                      absl::Duration timeout, Reply done) = 0;
};

// Control calls (heartbeats, state) never wait behind tensors: each lane is a connection of its
// own. kFrames is for many requests of up to kFrameBytesMax that follow each other, from a caller
// that bounds how many of them are unanswered, to a receiver that has the memory for these: nobody
// asks for room before their bytes are sent, and over gRPC they share one stream. The memory of
// their payloads is released when the bytes have left, answered or not. Over gRPC cancelling
// one may take the others of the channel along, with UNAVAILABLE. What is larger travels as on
// kData.
enum class Lane { kControl, kData, kFrames };

// Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  // Address is host:port; port 0 takes a free one. Errors: UNAVAILABLE or ALREADY_EXISTS naming the
  // address.
  virtual absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                         std::vector<Service> services) = 0;

  // Connects when the first call starts, and again after a break.
  virtual std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) = 0;

  // Returns the allocator for memory of tensors that will be sent: if possible, memory that peers
  // of this host read in place. May outlive the transport.
  virtual AllocateBuffer MemoryToSend() const { return Buffer::Allocate; }
};

}  // namespace cohort
