#pragma once

// The calls of one listening server, whatever they came by: each is handled, answered once, and on
// the way down waited for or stopped. Internal to common/wire.

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/method_table.h"
#include "common/wire/transport.h"

namespace cohort {

// A call that waits for its answer. Thread-safe.
class OpenCall {
 public:
  virtual ~OpenCall() = default;

  // Returns true for the first caller: answer and stop race for the right to end the call.
  bool Claim() { return !claimed_.exchange(true); }

  // Sets the room of the request's payload, held until the call is answered. Called before the call
  // is handled.
  void SetRoom(ByteBudget::Room room) { room_ = std::move(room); }
  void DropRoom() { room_.reset(); }

  // Ends the call. Called once, by the code that claimed it.
  virtual void Finish(absl::StatusOr<Message> result) = 0;
  // Ends the call with a failure of the transport, not of the handler: UNAVAILABLE.
  virtual void Stop(const std::string& text) = 0;

 private:
  std::atomic<bool> claimed_{false};
  ByteBudget::Room room_;
};

// Thread-safe. Always owned by a shared_ptr: replies that come late look whether it is still there.
class ServerCalls : public std::enable_shared_from_this<ServerCalls> {
 public:
  // Serves the methods of `services`; `address` is for error texts.
  ServerCalls(const std::vector<Service>& services, std::string address)
      : methods_(services), address_(std::move(address)) {}

  // Asks for room for a request of so many bytes. `granted` runs when the method's service has it.
  void AskForRoom(const std::string& method, size_t bytes, ByteBudget::Granted granted);
  // Reserves room for a request whose payload has already arrived.
  ByteBudget::Room TakeRoom(const std::string& method, size_t bytes);

  // Returns where the payload of a request may be received (FindPlace). Null: anywhere.
  std::shared_ptr<ReceivePlace> PlaceFor(const std::string& method, absl::string_view header,
                                         size_t bytes) const;

  // Runs the method's handler inside the call, or answers why not.
  void Handle(std::shared_ptr<OpenCall> call, const std::string& method,
              absl::StatusOr<Message> request);

  // Drains like Server::Drain.
  void Drain(absl::Duration grace);
  // Stops open calls and waits for handlers that are inside their call.
  void Stop();

 private:
  bool Add(const std::shared_ptr<OpenCall>& call);
  void Remove(const std::shared_ptr<OpenCall>& call);
  void HandlerReturned();

  const MethodTable methods_;
  const std::string address_;

  Mutex mutex_;
  CondVar changed_;
  std::set<std::shared_ptr<OpenCall>> open_ ABSL_GUARDED_BY(mutex_);  // the order is never used
  int running_ ABSL_GUARDED_BY(mutex_) = 0;                           // handlers inside their call
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace cohort
