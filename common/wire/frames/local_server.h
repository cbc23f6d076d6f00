#pragma once

// The serving end of local connections, and of others with their frames. Internal to common/wire.

#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/transport.h"

namespace cohort {

struct LocalServerOptions {
  std::string name;     // the socket to listen on; empty: none
  std::string address;  // the server's, for error texts and Server::address
  std::vector<Service> services;
  size_t message_bytes_max = 0;
  bool blocks = true;  // see LocalConnection
};

// Thread-safe.
class LocalServer : public Server {
 public:
  // Serves a client that came over TCP, where frames have sums.
  virtual void Take(UniqueFd socket, StreamKind kind) = 0;
};

// Errors: ALREADY_EXISTS or UNAVAILABLE naming address and socket.
absl::StatusOr<std::unique_ptr<LocalServer>> StartLocalServer(const LocalLoops& loops,
                                                              LocalServerOptions options);

// Returns the socket name of a server's connections for large payloads.
std::string NameForParts(const std::string& name);

}  // namespace cohort
