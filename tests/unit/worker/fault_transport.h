#pragma once

// A transport that loses what a test tells it to lose, on its way through another transport.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/cluster/process_limits.h"
#include "common/wire/transport.h"

namespace cohort {

enum class Fault {
  kNone,
  kRefuse,        // the call never reaches the server
  kLoseResponse,  // the server answers, the caller sees a broken connection
  kNoFiles,       // the caller has no file descriptor left for the call
};

// Thread-safe.
class FaultTransport final : public Transport {
 public:
  // Asked once for each call that starts.
  using Decide = std::function<Fault(const std::string& address, const std::string& method)>;

  explicit FaultTransport(Transport& inner) : inner_(inner), rules_(std::make_shared<Rules>()) {}

  void SetFaults(Decide decide) {
    MutexLock lock(rules_->mutex);
    rules_->decide = std::move(decide);
  }

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    return inner_.Listen(address, std::move(services));
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override {
    return std::make_shared<FaultChannel>(inner_.Connect(address, lane), address, rules_);
  }

 private:
  struct Rules {
    Mutex mutex;
    Decide decide ABSL_GUARDED_BY(mutex);
    Fault For(const std::string& address, const std::string& method) {
      MutexLock lock(mutex);
      return decide ? decide(address, method) : Fault::kNone;
    }
  };

  class FaultChannel final : public Channel {
   public:
    FaultChannel(std::shared_ptr<Channel> inner, std::string address, std::shared_ptr<Rules> rules)
        : inner_(std::move(inner)), address_(std::move(address)), rules_(std::move(rules)) {}

    std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                                Reply done) override {
      const Fault fault = rules_->For(address_, std::string(method));
      if (fault == Fault::kNone) {
        return inner_->Start(method, std::move(request), timeout, std::move(done));
      }
      const absl::Status end = fault == Fault::kNoFiles
                                   ? OutOfFiles("all 40 files are in use")
                                   : absl::UnavailableError("connection broken by the test");
      const std::string name(fault == Fault::kLoseResponse ? method : "/no.Such/Method");
      return inner_->Start(
          name, std::move(request), timeout,
          [end, done = std::move(done)](absl::StatusOr<Message>) mutable { done(end); });
    }

   private:
    const std::shared_ptr<Channel> inner_;
    const std::string address_;
    const std::shared_ptr<Rules> rules_;
  };

  Transport& inner_;
  const std::shared_ptr<Rules> rules_;  // shared with the channels
};

}  // namespace cohort
