#pragma once

// The interface by which tasks reach each other. A server listens with handlers; a channel starts
// calls. Every call has a deadline, may have a limit of silence (Message::silence), and can be
// cancelled. All implementations pass one conformance
// suite: those of common/wire/route, and the simulated one of tests/support/network.
//
// A handler and a call's completion run on a thread of the transport, so neither may block: they
// move the message to a strand and return. A reply may be sent from any thread, once. If a handler
// drops its reply unsent, the call gets INTERNAL.

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
#include "common/wire/receive_memory.h"
#include "google/protobuf/descriptor.h"

namespace cohort {

using Reply = absl::AnyInvocable<void(absl::StatusOr<Message>)>;
using Handler = std::function<void(Message request, Reply reply)>;

struct Service {
  const google::protobuf::ServiceDescriptor* descriptor = nullptr;
  // The handlers by method name, for example "Pull". A call of a declared method without a handler
  // fails with UNIMPLEMENTED.
  std::map<std::string, Handler> handlers;
  // The functions by which handlers offer memory for payloads (FindPlace), by method name. A
  // transport that receives all payloads into memory of its own does not call these functions.
  std::map<std::string, FindPlace> places = {};
  // The budget for the payloads of requests; null for no limit. A payload is charged from before
  // its first byte is received until its request is answered. A request larger than
  // kUnaskedBytesMax waits for room in the budget before its bytes are sent. Shared with calls
  // under way.
  std::shared_ptr<ByteBudget> receive_budget = nullptr;
};

// A server that listens on one address. Thread-safe.
class Server {
 public:
  // Stops the server at once: open calls fail with UNAVAILABLE. Waits for handlers that have not
  // returned, so that no handler runs when the destructor returns. Must not run inside a handler.
  virtual ~Server() = default;

  // Returns the server's host:port, with the port that was actually bound.
  virtual std::string address() const = 0;

  // Refuses new calls and waits up to `grace` for open calls to end. Idempotent. Blocks; must not
  // run inside a handler.
  virtual void Drain(absl::Duration grace) = 0;
};

// A handle to a call under way. Thread-safe.
class Call {
 public:
  // Releases the handle without cancelling: a call whose handle is gone still ends by itself.
  virtual ~Call() = default;

  // Cancels the call: its completion runs with CANCELLED, unless the call has ended. The memory of
  // a request's payload up to kFrameBytesMax is released soon, whatever the other end does.
  virtual void Cancel() = 0;
};

// A sender of calls to one address. Thread-safe.
class Channel {
 public:
  virtual ~Channel() = default;

  // Starts a call; `method` is, for example, "/cohort.proto.PsService/Pull". `done` runs exactly
  // once, never inside Start. Errors of the transport: UNAVAILABLE (no connection, or a broken
  // one), DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (message too large). Errors of the
  // handler arrive with their code, message and ErrorDetail.
  virtual std::unique_ptr<Call> Start(absl::string_view method, Message request,
                                      absl::Duration timeout, Reply done) = 0;

  // Returns how long ago the channel's connections last made progress (moved_bytes.h). Infinite if
  // they have made none, or if the channel does not see its bytes move.
  virtual absl::Duration SinceProgress() const { return absl::InfiniteDuration(); }
};

// The purpose of a channel. Channels of different purposes have connections of their own, so that
// control calls (heartbeats, state) never wait behind tensors.
//
// kControl is for control calls, and kData for calls with tensors.
//
// kFrames is for many requests of up to kFrameBytesMax in quick succession. The caller limits the
// number of unanswered requests, and the receiver has memory for that many requests, so no request
// waits until the server grants room. The memory of a request's payload is released when its bytes
// have been sent, even if the request is not answered yet. A larger request travels as on kData.
//
// On kData and kFrames over gRPC, cancelling one request may end other requests of the channel,
// with UNAVAILABLE: gRPC drops a payload that it has not sent only together with the whole stream.
enum class Lane { kControl, kData, kFrames };

// Makes servers and channels. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  // Serves `services` at `address`, which is host:port; port 0 takes a free port. Errors:
  // UNAVAILABLE or ALREADY_EXISTS naming the address.
  virtual absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                         std::vector<Service> services) = 0;

  // Returns a channel to `address`. The channel connects when its first call starts, and connects
  // again after its connection breaks.
  virtual std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) = 0;

  // Returns the allocator for tensors that will be sent. If possible, it allocates memory that
  // peers on this host read in place. The allocator may outlive the transport.
  virtual AllocateBuffer MemoryToSend() const { return Buffer::Allocate; }
};

}  // namespace cohort
