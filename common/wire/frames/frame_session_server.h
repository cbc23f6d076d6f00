#pragma once

// The serving end of connections that carry frames (frame_connection.h). Each connection has a
// ServerSession, which passes the calls of one client to the handlers. Internal to common/wire.

#include <memory>
#include <set>

#include "absl/functional/function_ref.h"
#include "common/base/mutex.h"
#include "common/wire/frames/frame_connection.h"
#include "common/wire/server_calls.h"

namespace cohort {

// The open connections of one server. Thread-safe.
class FramePeers {
 public:
  // Adds a connection, or closes it if CloseAll has run.
  void Add(std::shared_ptr<FrameConnection> connection);
  void Remove(const std::shared_ptr<FrameConnection>& connection);
  // Closes all connections. Waits first until the answers that were given have been sent, but only
  // for a short time.
  void CloseAll();

 private:
  Mutex mutex_;
  // The open connections. The set is ordered by pointer, an order that is never used.
  std::set<std::shared_ptr<FrameConnection>> open_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Serves the calls that arrive on the connection that `connect` makes. The connection must not read
// a frame before ServeSession has returned.
void ServeSession(
    const std::shared_ptr<ServerCalls>& calls, const std::shared_ptr<FramePeers>& peers,
    size_t message_bytes_max,
    absl::FunctionRef<std::shared_ptr<FrameConnection>(std::shared_ptr<FrameConnection::Owner>)>
        connect);

}  // namespace cohort
