#pragma once

// A parameter server: its services, put together and listening. It has no thread of its own;
// everything runs on the threads of the world's transport and executor. So the daemon, the
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

// A parameter server that listens and serves until it is destroyed. Thread-compatible.
class PsTask {
 public:
  struct Options {
    TaskId task;
    std::string listen_address;  // host:port; port 0 takes a free port
    uint64_t incarnation = 0;    // another number at each start
    std::string grant_file;      // the file for grants (grant_file.h); empty: none
    EpochGrant granted;          // the grant that the file held at the start
    size_t resident_bytes_max = size_t{64} << 30;  // limit of the bytes of values and slots
    // Limit of the bytes of requests (Service::receive_budget).
    size_t receive_bytes_max = size_t{1} << 30;
    size_t send_bytes_max = size_t{1} << 30;  // limit of the bytes of answers to pulls
    // Runs once, when a coordinator asks for Shutdown, on a transport thread; must not block.
    std::function<void()> on_shutdown;
    // Zero: the server waits for a coordinator for any time.
    absl::Duration orphan_timeout = absl::ZeroDuration();
    // Runs once, when no coordinator has come for `orphan_timeout` (TaskService); must not block.
    std::function<void()> on_orphaned;
  };

  PsTask(World world, Options options);
  ~PsTask();

  // Starts to listen. Returns the bound address. Errors: UNAVAILABLE or ALREADY_EXISTS that names
  // the address.
  absl::StatusOr<std::string> Start();

  // Reports the state DRAINING; from now on no coordinator can attach.
  void StartDraining();
  // Starts draining but, if the coordinator asks for it, serves on until Shutdown.
  void StartLeaving(absl::Duration patience);
  // Leaves (StartLeaving) for most of `grace`, then refuses new calls and waits for open ones. All
  // of it takes at most `grace`. Blocks.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // The gate and the services are shared with calls under way, which may end after this object.
  std::shared_ptr<PushGate> push_gate_;
  std::shared_ptr<TaskService> task_service_;
  std::shared_ptr<PsService> ps_service_;
  // Last member: destroyed first, because the server calls the services.
  std::unique_ptr<Server> server_;
};

}  // namespace cohort
