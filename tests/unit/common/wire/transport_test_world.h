#pragma once

// The conformance suite of transport.h runs on every implementation, each in a world of its own: a
// Transport and a way to let things happen until something holds.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

// The end of one call. Thread-safe.
class Outcome {
 public:
  Reply Completion() {
    return [this](absl::StatusOr<Message> result) {
      MutexLock lock(mutex_);
      ++completions_;
      result_ = std::move(result);
      done_.NotifyAll();
    };
  }
  bool done() const {
    MutexLock lock(mutex_);
    return completions_ > 0;
  }
  int completions() const {
    MutexLock lock(mutex_);
    return completions_;
  }
  // False when it did not come within `timeout` of real time.
  bool WaitFor(absl::Duration timeout) const {
    MutexLock lock(mutex_);
    while (completions_ == 0) {
      if (!done_.WaitFor(mutex_, timeout)) return completions_ > 0;
    }
    return true;
  }
  absl::StatusOr<Message> Take() {
    MutexLock lock(mutex_);
    return std::move(*result_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar done_;
  int completions_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::StatusOr<Message>> result_ ABSL_GUARDED_BY(mutex_);
};

class TransportTestWorld {
 public:
  virtual ~TransportTestWorld() = default;
  virtual Transport& transport() = 0;
  virtual std::string ListenAddress() = 0;
  // Lets the world go on until `holds`; false when it does not come to that.
  virtual bool Until(const std::function<bool()>& holds) = 0;
};

struct WorldFactory {
  const char* name;
  std::unique_ptr<TransportTestWorld> (*make)(size_t message_bytes_max);
};

// One for each implementation that this build can test.
std::vector<WorldFactory> TransportWorlds();

inline constexpr char kPull[] = "/cohort.proto.PsService/Pull";
inline constexpr char kPush[] = "/cohort.proto.PsService/Push";
inline constexpr absl::Duration kLong = absl::Seconds(60);

// A handler that answers with what it got.
void Echo(Message request, Reply reply);

// `size` bytes that depend on the seed.
ByteSlice Bytes(size_t size, uint64_t seed);
std::string Flatten(const Payload& payload);
// Of a PullRequest.
std::string Header(uint64_t epoch);

class TransportTest : public testing::TestWithParam<WorldFactory> {
 protected:
  std::unique_ptr<Server> Listen(std::map<std::string, Handler> handlers);
  std::unique_ptr<Server> ListenAt(const std::string& address,
                                   std::map<std::string, Handler> handlers);
  absl::StatusOr<Message> Await(Outcome& outcome);
  absl::StatusOr<Message> CallOnce(Channel& channel, absl::string_view method, Message request,
                                   absl::Duration timeout = kLong);
  // As a caller does while a task comes up: again after UNAVAILABLE.
  absl::StatusOr<Message> CallUntilAvailable(Channel& channel);

  TransportTestWorld& world();

  size_t message_bytes_max_ = kMessageBytesMax;
  std::shared_ptr<ByteBudget> receive_budget_;  // of what listens

 private:
  std::unique_ptr<TransportTestWorld> world_;
};

// For INSTANTIATE_TEST_SUITE_P.
inline std::string NameOfWorld(const testing::TestParamInfo<WorldFactory>& info) {
  return info.param.name;
}

}  // namespace cohort
