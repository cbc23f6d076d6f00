#pragma once

#include <string>

namespace cohort {

// The names by which a server is reached other than over gRPC. An empty name means that the server
// has no such way.
struct ServerNames {
  std::string local;   // name of the server's unix socket on this host
  std::string stream;  // name of the server in greetings on its port (stream_greeting.h)
  std::string peer;    // address of the connection's other end, in gRPC's notation
};

}  // namespace cohort
