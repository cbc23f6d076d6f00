#pragma once

// A TCP proxy on loopback that a test puts between real processes, to break the network between
// them without root: whoever is told the proxy's address reaches the target through it. Faults are
// switched while it runs, for each direction on its own. A call that switches one returns when it
// holds: no byte that the proxy has not passed on by then escapes it.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "tests/support/proxy_connection.h"

namespace cohort {

// Thread-safe.
class FaultProxy {
 public:
  enum Direction : size_t { kToServer, kToClient };

  struct Counts {
    int accepted = 0;  // connections, ever
    int open = 0;
    ProxyBytes to_server, to_client;  // of all connections, ever
  };

  FaultProxy();
  ~FaultProxy();

  // "127.0.0.1:port", the same for its whole life.
  const std::string& address() const { return address_; }

  // Where connections go that are made from now on, "127.0.0.1:port". Until it is told and where
  // nobody listens there they are reset.
  void SetTarget(const std::string& address);
  void SetFlow(Direction direction, ProxyFlow flow);
  void SetFlow(ProxyFlow flow);  // both directions
  // Of bytes that arrive from now on.
  void SetDelay(Direction direction, absl::Duration delay);
  // Of all connections that are open: the receiver of the direction reads an end.
  void HalfClose(Direction direction);
  // Of all connections that are open.
  void ResetAll();
  void RefuseConnections();
  void AcceptConnections();

  Counts counts() const;
  // False when `holds` did not hold within the time.
  bool WaitUntil(const std::function<bool(const Counts&)>& holds, absl::Duration timeout) const;

 private:
  using Command = std::function<void()>;

  void Listen();
  void RunOnThread(Command command);
  void Loop();
  bool RunCommands();
  void Accept();
  void Prune();
  void Publish();

  UniqueFd reserved_;  // bound and never listening: the port stays ours while it refuses
  UniqueFd wake_;
  std::string address_;

  // Of the thread alone, while it runs.
  UniqueFd listener_;
  std::string target_;
  ProxyRules rules_;
  std::vector<std::unique_ptr<ProxyConnection>> connections_;
  int accepted_ = 0;
  std::array<ProxyBytes, 2> ended_;  // bytes of connections that are gone

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  uint64_t commands_given_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t commands_done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses the others
};

}  // namespace cohort
