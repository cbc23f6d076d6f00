#pragma once

// The first bytes of a TCP connection on which frames will travel (local_connection.h). The client
// sends a greeting that names the server by the 128 random bits that the server told over gRPC. So
// a connection that ends elsewhere, at a proxy or at another server, is noticed before a call is
// sent on it. The first byte already differs from the first byte of an HTTP/2 client, so one port
// serves both protocols. The server answers with a welcome. Internal to common/wire.

#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

// The purpose of a connection of frames: small calls, or calls with large payloads.
enum class StreamKind : size_t { kCalls, kParts };

// Returns the greeting that a client sends to the server `name`. All greetings have the same
// length, because all names come from NewSocketNumber.
std::string StreamGreeting(StreamKind kind, const std::string& name);

inline constexpr absl::string_view kStreamWelcome = "cohort-frames-1 welcome\n";

// The meaning of the first bytes that have arrived on a connection at a server.
enum class FirstBytes {
  kTooFew,    // a part of a greeting so far, too few bytes to tell
  kGreeting,  // a greeting for the server with the expected name
  kStranger,  // a greeting for another server
  kOther      // the first bytes of another protocol
};
struct Greeted {
  FirstBytes first = FirstBytes::kTooFew;
  StreamKind kind = StreamKind::kCalls;
};
Greeted ReadGreeting(absl::string_view bytes, const std::string& name);

// Returns the number of bytes of a greeting to the server `name`.
size_t StreamGreetingBytes(const std::string& name);

}  // namespace cohort
