#pragma once

// A parameter server: its services, connected and listening on the network. It has no thread of its
// own; everything runs on the threads of the transport and the executor of its World. So the daemon
// `ps`, the in-process tests and the simulator run the same object.

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
  // The options of the TaskService and of the parameter server itself. PsTask itself sets the
  // TaskOptions memory_bytes, on_attach and on_grant.
  struct Options : TaskOptions {
    std::string listen_address;  // address to listen on, host:port; port 0 takes a free port
    std::string grant_file;      // path of the grant file (grant_file.h); empty for no file
    // The limit of the total bytes of variables' values and slots in memory.
    size_t resident_bytes_max = size_t{64} << 30;
    // The limit of the total bytes of received requests that are not answered yet
    // (Service::receive_budget).
    size_t receive_bytes_max = size_t{1} << 30;
    // The limit of the total bytes of answers to pulls that are not sent yet.
    size_t send_bytes_max = size_t{1} << 30;
  };

  PsTask(World world, Options options);
  ~PsTask();

  // Starts to listen. Returns the address to which the server is bound. Errors: UNAVAILABLE or
  // ALREADY_EXISTS that names the address.
  absl::StatusOr<std::string> Start();

  // Reports the state DRAINING, and refuses every coordinator that attaches from now on. If the
  // present coordinator has promised to call Shutdown, the server continues to serve until that
  // call, for at most `patience`.
  void StartLeaving(absl::Duration patience);
  // Calls StartLeaving and waits for the coordinator's Shutdown call for most of `grace`, then
  // refuses new calls and waits for open calls to end. Blocks for at most `grace` in total.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // The push gate and the two services are shared with running calls, which may end after this
  // object is destroyed.
  std::shared_ptr<PushGate> push_gate_;
  std::shared_ptr<TaskService> task_service_;
  std::shared_ptr<PsService> ps_service_;
  // The network server calls the services. It is declared last, so that it is destroyed first.
  std::unique_ptr<Server> server_;
};

}  // namespace cohort
