#pragma once

// The serving end of connections that carry frames (proto/local.proto), over a unix socket or over
// TCP. Internal to common/wire.

#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/transport.h"

namespace cohort {

struct LocalServerOptions {
  std::string name;     // name of the unix socket to listen on; empty: none
  std::string address;  // address of the server, for error texts and Server::address
  std::vector<Service> services;
  size_t message_bytes_max = 0;
  bool blocks = true;  // whether payloads may lie in shared blocks (LocalConnection::Options)
};

// A server whose clients send frames. Thread-safe.
class LocalServer : public Server {
 public:
  // Serves a client that has connected over TCP. Frames over TCP have checksums.
  virtual void Take(UniqueFd socket, StreamKind kind) = 0;
};

// Starts a server. If the options have a socket name, the server listens on two unix sockets, one
// for small calls and one for large payloads. Errors: ALREADY_EXISTS or UNAVAILABLE naming address
// and socket.
absl::StatusOr<std::unique_ptr<LocalServer>> StartLocalServer(const LocalLoops& loops,
                                                              LocalServerOptions options);

// Returns the name of the server's unix socket for large payloads, given the name of its socket for
// small calls.
std::string NameForParts(const std::string& name);

}  // namespace cohort
