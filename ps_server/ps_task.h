#pragma once

// A parameter server: its services put together and listening. It has no thread of its own;
// everything runs on the threads of the world's transport and executor, so the daemon, the
// in-process tests and the simulator run the same object.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/task/task_service.h"
#include "common/wire/world.h"
#include "ps_server/service/ps_service.h"

namespace cohort {

// Thread-compatible.
class PsTask {
 public:
  struct Options {
    TaskId task;
    std::string listen_address;                    // host:port, port 0 takes a free one
    uint64_t incarnation = 0;                      // differs from start to start
    std::string grant_file;                        // the file to write (grant_file.h); empty: none
    EpochGrant granted;                            // what it held
    size_t resident_bytes_max = size_t{64} << 30;  // limit of values and slots
    size_t receive_bytes_max = size_t{1} << 30;    // limit of requests (Service::receive_budget)
    size_t send_bytes_max = size_t{1} << 30;       // limit of answers to pulls
    // Runs once when a coordinator asks for Shutdown, on a transport thread; must not block.
    std::function<void()> on_shutdown;
    absl::Duration orphan_timeout = absl::ZeroDuration();  // zero: never orphaned
    // Runs once when no coordinator came for that time (TaskService); must not block.
    std::function<void()> on_orphaned;
  };

  PsTask(World world, Options options);
  ~PsTask();

  // Listens. The bound address. Errors: UNAVAILABLE or ALREADY_EXISTS naming the address.
  absl::StatusOr<std::string> Start();

  // Reports DRAINING, and may not be attached any more.
  void StartDraining();
  // Starts draining but, if the coordinator wants it, serves on until Shutdown.
  void StartLeaving(absl::Duration patience);
  // Leaves for most of `grace`, then refuses new calls and waits for open ones, so that all of it
  // takes at most `grace`. Blocks.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // Shared with calls under way, which may end after this object.
  std::shared_ptr<PushGate> push_gate_;
  std::shared_ptr<TaskService> task_service_;
  std::shared_ptr<PsService> ps_service_;
  std::unique_ptr<Server> server_;  // last: destroyed first, it calls the services
};

}  // namespace cohort
