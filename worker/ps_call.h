#pragma once

// One call to one parameter server with its repeats. Every call that a worker makes there may be
// repeated: Pull and Assign change nothing the second time, and a repeated Push is told apart by
// the closure's id. A repeat follows a connection that failed or an answer that did not come; it
// waits a little longer each time, ends at the call's deadline, and takes from a budget that many
// failing calls share, so that a server in trouble is not buried in repeats.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"

namespace cohort {

// Tokens: a repeat takes one, a success gives a tenth back. Thread-safe.
class RetryBudget {
 public:
  bool Take();
  void Success();

 private:
  static constexpr double kTokensMax = 20;
  static constexpr double kRefund = 0.1;
  Mutex mutex_;
  double tokens_ ABSL_GUARDED_BY(mutex_) = kTokensMax;
};

struct RetryPolicy {
  int attempts_max = 4;
  absl::Duration call_timeout = absl::Seconds(30);     // for all attempts together
  absl::Duration attempt_timeout = absl::Seconds(10);
  absl::Duration first_backoff = absl::Milliseconds(20);  // doubles from attempt to attempt
};

// One parameter server as this worker reaches it.
struct PsPeer {
  uint32_t index = 0;
  std::string address;
  std::shared_ptr<Channel> channel;  // shared: calls under way outlive a change of address
};

struct PsCallOptions {
  RetryPolicy policy;
  std::shared_ptr<RetryBudget> budget;  // shared by all calls of one client
};

// `done` runs once, on a thread of the transport or of the clock. A server that cannot be reached:
// UNAVAILABLE or DEADLINE_EXCEEDED of class PS_LOST with the ps as origin. An answered error keeps
// its code and detail; one without detail gets the class APPLICATION. All name the ps.
void StartPsCall(World world, PsPeer peer, std::string method, Message request,
                 PsCallOptions options, Reply done);

}  // namespace cohort
