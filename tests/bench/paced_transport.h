#pragma once

// A transport whose calls take as long as over a link of so many bits a second: what a caller sends
// goes one call after the other, and answers, which are short, take the link's latency alone.
// Nothing else is slower, and no processor is used, so that two hosts can be measured on one.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"

namespace cohort::bench {

// The end of one sender. Thread-safe.
class PacedTransport final : public Transport {
 public:
  struct Link {
    double bytes_per_second = 0;
    absl::Duration latency = absl::ZeroDuration();
  };

  // Both outlive it, its channels and their calls.
  PacedTransport(Clock& clock, Transport& inner, Link link)
      : inner_(inner), sender_(std::make_shared<Sender>(clock, link)) {}

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    return inner_.Listen(address, std::move(services));
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override {
    return std::make_shared<PacedChannel>(sender_, inner_.Connect(address, lane));
  }

 private:
  struct Sender {
    Sender(Clock& its_clock, Link its_link) : clock(its_clock), link(its_link) {}
    // When the last byte of a message is there that is sent now.
    absl::Time Arrival(size_t bytes) {
      const absl::Time now = clock.Now();
      MutexLock lock(mutex);
      free_at = std::max(free_at, now) +
                absl::Seconds(static_cast<double>(bytes) / link.bytes_per_second);
      return free_at + link.latency;
    }
    Clock& clock;
    const Link link;
    Mutex mutex;
    absl::Time free_at ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  };

  // On its way, or with the receiver; a call is never cancelled before it is there.
  class PacedCall final : public Call {
   public:
    void Cancel() override {
      MutexLock lock(state->mutex);
      state->cancelled = true;
      if (state->inner != nullptr) state->inner->Cancel();
    }
    struct State {
      Mutex mutex;
      bool cancelled ABSL_GUARDED_BY(mutex) = false;
      std::unique_ptr<Call> inner ABSL_GUARDED_BY(mutex);
    };
    const std::shared_ptr<State> state = std::make_shared<State>();
  };

  class PacedChannel final : public Channel {
   public:
    PacedChannel(std::shared_ptr<Sender> sender, std::shared_ptr<Channel> inner)
        : sender_(std::move(sender)), inner_(std::move(inner)) {}

    std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                                Reply done) override {
      auto call = std::make_unique<PacedCall>();
      const absl::Time arrival = sender_->Arrival(PayloadBytes(request.payload));
      sender_->clock.CallAt(arrival, [sender = sender_, inner = inner_, state = call->state,
                                      method = std::string(method), request = std::move(request),
                                      timeout, done = std::move(done)]() mutable {
        auto begun =
            inner->Start(method, std::move(request), timeout,
                         [sender, done = std::move(done)](absl::StatusOr<Message> answer) mutable {
                           Answer(*sender, std::move(answer), std::move(done));
                         });
        MutexLock lock(state->mutex);
        state->inner = std::move(begun);
        if (state->cancelled) state->inner->Cancel();
      });
      return call;
    }

   private:
    static void Answer(Sender& sender, absl::StatusOr<Message> answer, Reply done) {
      sender.clock.CallAt(sender.clock.Now() + sender.link.latency,
                          [answer = std::move(answer), done = std::move(done)]() mutable {
                            done(std::move(answer));
                          });
    }

    const std::shared_ptr<Sender> sender_;  // shared by all that it sends
    const std::shared_ptr<Channel> inner_;
  };

  Transport& inner_;
  const std::shared_ptr<Sender> sender_;  // shared with its channels
};

}  // namespace cohort::bench
