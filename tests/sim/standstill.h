#pragma once

#include <string>
#include <utility>

#include "tests/support/network/sim_transport.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// A host under SIGSTOP: what is sent to or by it arrives when it goes on. Lives on the world's
// thread.
class Standstill final : public SimWatcher {
 public:
  Standstill(SimWorld& sim, std::string host, absl::Duration duration)
      : sim_(sim), host_(std::move(host)), until_(sim.Now() + duration) {}
  SimFate OnRequest(const SimMessage& message) override { return FateOf(message); }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage& message) override { return FateOf(message); }

 private:
  SimFate FateOf(const SimMessage& message) const {
    SimFate fate;
    const bool concerns = message.from == host_ || message.to == host_;
    if (concerns && sim_.Now() < until_) fate.delay = until_ - sim_.Now();
    return fate;
  }

  SimWorld& sim_;
  const std::string host_;
  const absl::Time until_;
};

}  // namespace cohort
