#pragma once

// The first bytes of a TCP connection on which frames will travel (local_connection.h). The
// greeting names the server by the 128 random bits that the server told over gRPC. So a connection
// that ends elsewhere, at a proxy or at another server, is noticed before a call is sent there. The
// greeting differs from the first bytes of an HTTP/2 client at once, so one port serves both
// protocols. The server answers with a greeting of its own. Internal to common/wire.

#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

// The purpose of a connection: small calls, or calls with large payloads.
enum class StreamKind : size_t { kCalls, kParts };

// Returns the greeting of a client. All greetings have the same length. `name` is from
// NewSocketNumber.
std::string StreamGreeting(StreamKind kind, const std::string& name);

inline constexpr absl::string_view kStreamWelcome = "cohort-frames-1 welcome\n";

// The meaning of the first bytes that have arrived on a connection.
enum class FirstBytes {
  kTooFew,    // too few bytes to tell, but so far those of a greeting
  kGreeting,  // a greeting for the server with the expected name
  kStranger,  // a greeting for another server
  kOther      // the first bytes of another protocol
};
struct Greeted {
  FirstBytes first = FirstBytes::kTooFew;
  StreamKind kind = StreamKind::kCalls;
};
Greeted ReadGreeting(absl::string_view bytes, const std::string& name);

// Returns the number of bytes of a greeting to a server with this name.
size_t StreamGreetingBytes(const std::string& name);

}  // namespace cohort
