#include "common/wire/inprocess_transport.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/mutex.h"
#include "common/wire/method_table.h"
#include "common/wire/server_calls.h"

namespace cohort {

namespace {

// A call from Start to its completion. A reply, the deadline, a cancel or the end of the server
// completes the call, whichever comes first. Thread-safe.
class PendingCall {
 public:
  PendingCall(Clock& clock, Executor& executor, Reply done)
      : clock_(clock), executor_(executor), done_(std::move(done)) {}

  void SetTimer(TimerId timer) {
    MutexLock lock(mutex_);
    timer_ = timer;
  }

  bool finished() {
    MutexLock lock(mutex_);
    return done_ == nullptr;
  }

  void Finish(absl::StatusOr<Message> result) {
    Reply done;
    TimerId timer;
    {
      MutexLock lock(mutex_);
      done = std::exchange(done_, nullptr);
      timer = timer_;
    }
    // Another event has completed the call before, so `result` is ignored.
    if (done == nullptr) return;
    clock_.Cancel(timer);
    // The call's completion `done` runs on the executor, because it must not run inside Start or
    // Cancel.
    executor_.Run([done = std::move(done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
  }

 private:
  Clock& clock_;
  Executor& executor_;
  Mutex mutex_;
  Reply done_ ABSL_GUARDED_BY(mutex_);  // completion of the call; empty when the call has ended
  TimerId timer_ ABSL_GUARDED_BY(mutex_);
};

class CancelHandle final : public Call {
 public:
  explicit CancelHandle(std::shared_ptr<PendingCall> call) : call_(std::move(call)) {}
  void Cancel() override { call_->Finish(absl::CancelledError("the caller cancelled the call")); }

 private:
  // The call. Shared, because the call's reply, its timer and this handle race to complete it.
  const std::shared_ptr<PendingCall> call_;
};

// Serves the calls to one address. Thread-safe.
class Listener {
 public:
  Listener(std::string address, std::vector<Service> services)
      : address_(std::move(address)), methods_(services) {}

  const std::string& address() const { return address_; }

  // Registers a call and returns its id. Returns 0 if the server is draining or has stopped.
  uint64_t Open(std::shared_ptr<PendingCall> call) {
    MutexLock lock(mutex_);
    if (!accepting_) return 0;
    open_.emplace(++last_id_, std::move(call));
    return last_id_;
  }

  ByteBudget* ReceiveBudgetOf(absl::string_view method) const {
    return methods_.ReceiveBudgetOf(method);
  }

  // Runs the handler of an open call, on a thread of the executor.
  void Dispatch(uint64_t id, absl::string_view method, Message request, Reply reply) {
    {
      MutexLock lock(mutex_);
      if (open_.count(id) == 0) return;  // the call has ended, or the server stopped
      ++running_;
    }
    const Handler* handler = methods_.Find(method);
    if (handler == nullptr) {
      reply(UnknownMethod(method, address_));
    } else {
      (*handler)(std::move(request), GuardReply(method, std::move(reply)));
    }
    MutexLock lock(mutex_);
    --running_;
    idle_.NotifyAll();
  }

  void Close(uint64_t id) {
    // `closed` dies after the lock is released, because the call owns the caller's completion,
    // whose destructor may run any code.
    std::shared_ptr<PendingCall> closed;
    MutexLock lock(mutex_);
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    closed = std::move(found->second);
    open_.erase(found);
    idle_.NotifyAll();
  }

  void Drain(Clock& clock, absl::Duration grace) {
    {
      MutexLock lock(mutex_);
      accepting_ = false;
      out_of_grace_ = false;
    }
    // A condition variable measures only real time, but `clock` may be simulated, so a timer of
    // `clock` ends the grace period.
    const TimerId timer = clock.CallAt(clock.Now() + BoundedWait(grace), [this] {
      MutexLock lock(mutex_);
      out_of_grace_ = true;
      idle_.NotifyAll();
    });
    bool timer_ran = false;
    {
      MutexLock lock(mutex_);
      while (!open_.empty() && !out_of_grace_) idle_.Wait(mutex_);
      timer_ran = out_of_grace_;
    }
    // If Cancel fails, the timer's callback is about to use this object. Drain then waits until the
    // callback has run.
    if (timer_ran || clock.Cancel(timer)) return;
    MutexLock lock(mutex_);
    while (!out_of_grace_) idle_.Wait(mutex_);
  }

  void Stop() {
    std::map<uint64_t, std::shared_ptr<PendingCall>> open;
    {
      MutexLock lock(mutex_);
      accepting_ = false;
      open.swap(open_);
    }
    // Calls are completed outside the lock, because a completion may start or close other calls.
    for (const auto& [id, call] : open) {
      call->Finish(absl::UnavailableError(absl::StrCat("the server at ", address_, " stopped")));
    }
    MutexLock lock(mutex_);
    while (running_ > 0) idle_.Wait(mutex_);
  }

 private:
  const std::string address_;
  const MethodTable methods_;

  Mutex mutex_;
  CondVar idle_;
  std::map<uint64_t, std::shared_ptr<PendingCall>> open_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // number of handlers that have not returned yet
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
  bool out_of_grace_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

// The table of the listeners of one transport, by address. Thread-safe.
class InProcessTransport::Network {
 public:
  Network(Clock& clock, Executor& executor, Options options)
      : clock_(clock), executor_(executor), options_(options) {}

  Clock& clock() { return clock_; }
  Executor& executor() { return executor_; }
  const Options& options() const { return options_; }

  absl::StatusOr<std::shared_ptr<Listener>> Add(std::string address,
                                                std::vector<Service> services) {
    MutexLock lock(mutex_);
    absl::string_view host = address;
    if (absl::ConsumeSuffix(&host, ":0")) address = absl::StrCat(host, ":", ++last_port_);
    if (address.empty()) return absl::InvalidArgumentError("an address to listen on is empty");
    auto listener = std::make_shared<Listener>(address, std::move(services));
    if (!listeners_.emplace(address, listener).second) {
      return absl::AlreadyExistsError(absl::StrCat("address ", address, " is in use"));
    }
    return listener;
  }

  void Remove(const std::string& address) {
    MutexLock lock(mutex_);
    listeners_.erase(address);
  }

  std::shared_ptr<Listener> Find(const std::string& address) {
    MutexLock lock(mutex_);
    const auto found = listeners_.find(address);
    return found == listeners_.end() ? nullptr : found->second;
  }

 private:
  Clock& clock_;
  Executor& executor_;
  const Options options_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Listener>> listeners_ ABSL_GUARDED_BY(mutex_);
  int last_port_ ABSL_GUARDED_BY(mutex_) = 0;
};

class InProcessTransport::InProcessServer final : public Server {
 public:
  InProcessServer(std::shared_ptr<Network> network, std::shared_ptr<Listener> listener)
      : network_(std::move(network)), listener_(std::move(listener)) {}

  ~InProcessServer() override {
    network_->Remove(listener_->address());
    listener_->Stop();
  }

  std::string address() const override { return listener_->address(); }
  void Drain(absl::Duration grace) override { listener_->Drain(network_->clock(), grace); }

 private:
  const std::shared_ptr<Network> network_;
  // The server's listener, shared with calls that are being dispatched.
  const std::shared_ptr<Listener> listener_;
};

class InProcessTransport::InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<Network> network, std::string address)
      : network_(std::move(network)), address_(std::move(address)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    Clock& clock = network_->clock();
    timeout = std::min(timeout, request.silence);  // messages arrive at once, so nothing moves
    auto call = std::make_shared<PendingCall>(clock, network_->executor(), std::move(done));
    const std::string name(method);
    // The timer holds the call weakly, so that a call that has ended is freed before its deadline.
    call->SetTimer(
        clock.CallAt(clock.Now() + BoundedWait(timeout), [weak = std::weak_ptr(call), name] {
          if (auto late = weak.lock()) {
            late->Finish(NoAnswerInTime(name));
          }
        }));
    if (timeout <= absl::ZeroDuration()) call->Finish(NoAnswerInTime(name));
    if (absl::Status sent = Send(name, std::move(request), call); !sent.ok()) call->Finish(sent);
    return std::make_unique<CancelHandle>(std::move(call));
  }

 private:
  // Passes the request to the listener: at once, or when the receive budget of the service has
  // room. An error means that the handler will not run.
  absl::Status Send(const std::string& method, Message request,
                    const std::shared_ptr<PendingCall>& call) {
    const size_t limit = network_->options().message_bytes_max;
    RETURN_IF_ERROR(CheckSize(request, limit));
    std::shared_ptr<Listener> listener = network_->Find(address_);
    const uint64_t id = listener == nullptr ? 0 : listener->Open(call);
    if (id == 0) return absl::UnavailableError(absl::StrCat("no server at ", address_));
    const size_t bytes = PayloadBytes(request.payload);
    ByteBudget* const budget = listener->ReceiveBudgetOf(method);
    // The budget runs this function when it grants room for the request, perhaps long after Start
    // has returned.
    ByteBudget::Granted dispatch = [&executor = network_->executor(), listener, id, call, limit,
                                    method,
                                    request = std::move(request)](ByteBudget::Room room) mutable {
      if (call->finished()) return listener->Close(id);
      // The reply holds the listener weakly: a service may keep replies, the listener keeps the
      // service, and the two would keep each other alive.
      Reply reply = [weak = std::weak_ptr(listener), id, call, limit,
                     room = std::move(room)](absl::StatusOr<Message> result) mutable {
        // The request's room in the budget is given back before the caller learns of the answer and
        // sends its next request.
        room.reset();
        absl::Status fits = result.ok() ? CheckSize(*result, limit) : absl::OkStatus();
        call->Finish(fits.ok() ? std::move(result) : std::move(fits));
        if (const auto listener = weak.lock()) listener->Close(id);
      };
      executor.Run(
          [listener, id, method, request = std::move(request), reply = std::move(reply)]() mutable {
            listener->Dispatch(id, method, std::move(request), std::move(reply));
          });
    };
    // As over a network, only a request above kUnaskedBytesMax waits for room in the budget. A
    // smaller request is charged when it arrives.
    if (budget == nullptr) {
      dispatch(nullptr);
    } else if (bytes > kUnaskedBytesMax) {
      budget->Ask(bytes, std::move(dispatch));
    } else {
      dispatch(budget->Take(bytes));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Network> network_;
  const std::string address_;
};

InProcessTransport::InProcessTransport(Clock& clock, Executor& executor)
    : InProcessTransport(clock, executor, Options()) {}
InProcessTransport::InProcessTransport(Clock& clock, Executor& executor, Options options)
    : network_(std::make_shared<Network>(clock, executor, options)) {}
InProcessTransport::~InProcessTransport() = default;

absl::StatusOr<std::unique_ptr<Server>> InProcessTransport::Listen(const std::string& address,
                                                                   std::vector<Service> services) {
  ASSIGN_OR_RETURN(std::shared_ptr<Listener> listener, network_->Add(address, std::move(services)));
  return std::make_unique<InProcessServer>(network_, std::move(listener));
}

std::shared_ptr<Channel> InProcessTransport::Connect(const std::string& address, Lane lane) {
  return std::make_shared<InProcessChannel>(network_, address);
}

}  // namespace cohort
