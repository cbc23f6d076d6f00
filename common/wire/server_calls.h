#pragma once

// The calls of one listening server, over any transport. Each call is handled and answered once. A
// server that shuts down waits for its calls or stops them. Internal to common/wire.
//
// GuardReply keeps, for all transports, the promise of transport.h about replies: a reply is sent
// once, and a reply that is dropped unsent answers INTERNAL.

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/method_table.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns a reply that passes its result to `target`, or passes INTERNAL naming `method` if the
// reply is destroyed uncalled. A second call of this reply does nothing.
Reply GuardReply(absl::string_view method, Reply target);

// A call of a client that waits for its answer. Thread-safe.
class OpenCall {
 public:
  virtual ~OpenCall() = default;

  // Claims the right to end the call. The handler's answer and the server's stop race for this
  // right. Returns true for the first claim only.
  bool Claim() { return !claimed_.exchange(true); }

  // Stores the room that the request's payload takes in the receive budget. The room is given back
  // when the call is answered. Runs before the call is handled.
  void SetRoom(ByteBudget::Room room) { room_ = std::move(room); }
  void DropRoom() { room_.reset(); }

  // Ends the call with an answer or an error. Runs once, in the code that claimed the call.
  virtual void Finish(absl::StatusOr<Message> result) = 0;
  // Ends the call with UNAVAILABLE, as an error of the transport and not of the handler. Runs in
  // place of Finish.
  virtual void Stop(const std::string& text) = 0;

 private:
  std::atomic<bool> claimed_{false};
  ByteBudget::Room room_;
};

// The open calls of one server. Thread-safe. Always owned by a shared_ptr, because a late reply
// checks whether the ServerCalls still exists.
class ServerCalls : public std::enable_shared_from_this<ServerCalls> {
 public:
  // Serves the methods of `services`; `address` is for error texts.
  ServerCalls(const std::vector<Service>& services, std::string address)
      : methods_(services), address_(std::move(address)) {}

  // Asks the receive budget of the method's service for room for a request of `bytes`. `granted`
  // runs as soon as the budget has the room, or at once if the service has no budget.
  void AskForRoom(const std::string& method, size_t bytes, ByteBudget::Granted granted);
  // Charges a request whose payload has already arrived to the receive budget of the method's
  // service, without waiting. Returns null if the service has no budget or `bytes` is 0.
  ByteBudget::Room TakeRoom(const std::string& method, size_t bytes);

  // Returns the memory that the method's handler offers for a request's payload (ReceivePlace), or
  // null if any memory will do.
  std::shared_ptr<ReceivePlace> PlaceFor(const std::string& method, absl::string_view header,
                                         size_t bytes) const;

  // Runs the method's handler. Answers an error instead if no handler serves the method or
  // `request` is an error. Returns after the handler has returned; the call's answer may come
  // later.
  void Handle(std::shared_ptr<OpenCall> call, const std::string& method,
              absl::StatusOr<Message> request);

  // Refuses new calls and waits up to `grace` for open calls to end, like Server::Drain.
  void Drain(absl::Duration grace);
  // Refuses new calls, stops the open ones, and waits for handlers that have not returned yet.
  void Stop();

 private:
  bool Add(const std::shared_ptr<OpenCall>& call);
  void Remove(const std::shared_ptr<OpenCall>& call);
  void HandlerReturned();

  const MethodTable methods_;
  const std::string address_;

  Mutex mutex_;
  CondVar changed_;
  // The calls that wait for their answers. The set is ordered by pointer, an order that is never
  // used.
  std::set<std::shared_ptr<OpenCall>> open_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // number of handlers that have not returned yet
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace cohort
