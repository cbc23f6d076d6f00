#pragma once

// The names that a server gives a client over gRPC, so that the client can reach it in a faster
// way.

#include <string>

namespace cohort {

// The names by which a server is reached in other ways than over gRPC. An empty name means that
// this way does not exist.
struct ServerNames {
  std::string local;   // name of the server's unix socket on this host
  std::string stream;  // the server's name in greetings on its port (stream_greeting.h)
  std::string peer;    // address of the server, in gRPC's notation
};

}  // namespace cohort
