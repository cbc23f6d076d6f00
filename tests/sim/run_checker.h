#pragma once

// Watches from outside what runs on workers: a closure may be started again when its worker has
// answered, or when every ps refuses what the worker still pushes.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/network/sim_transport.h"

namespace cohort {

// Lives on the world's thread.
class RunChecker {
 public:
  struct Options {
    // Whether every ps of the epoch refuses pushes of the session.
    std::function<bool(uint64_t epoch, uint64_t session)> is_fenced;
    std::function<void(const std::string& what)> violate;
  };
  explicit RunChecker(Options options) : options_(std::move(options)) {}

  void OnRequest(const SimMessage& message);
  void OnArrival(const SimMessage& message);
  void OnResponse(const SimMessage& message);

 private:
  using Closure = std::pair<std::string, uint64_t>;  // coordinator's host, id
  struct Attempt {
    uint64_t epoch = 0;
    uint32_t number = 0;
    uint64_t session = 0;
    std::string worker;
  };

  const Options options_;
  std::map<Closure, std::vector<Attempt>> running_;  // also of workers that were killed
  std::set<std::pair<Closure, uint32_t>> answered_;
};

}  // namespace cohort
