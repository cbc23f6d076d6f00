#pragma once

// The first bytes of a TCP connection on which frames will travel (local_connection.h). They name
// the server, by the 128 random bits that it told over gRPC, so that a connection that ends
// elsewhere, at a proxy or at another server, is noticed before a call goes there; and they differ
// from an HTTP/2 client's first bytes at once, so that one port serves both. The server answers
// with its own greeting. Internal to common/wire.

#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

// The purpose of a connection: calls, or calls with large payloads.
enum class StreamKind : size_t { kCalls, kParts };

// Returns the greeting; all have the same length. `name` is from NewSocketNumber.
std::string StreamGreeting(StreamKind kind, const std::string& name);

inline constexpr absl::string_view kStreamWelcome = "cohort-frames-1 welcome\n";

// The meaning of the first bytes that came so far.
enum class FirstBytes {
  kTooFew,    // they may become a greeting
  kGreeting,  // a greeting of the server with that name
  kStranger,  // a greeting for another server
  kOther      // another protocol
};
struct Greeted {
  FirstBytes first = FirstBytes::kTooFew;
  StreamKind kind = StreamKind::kCalls;
};
Greeted ReadGreeting(absl::string_view bytes, const std::string& name);

// Returns how many bytes a greeting to a server with this name has.
size_t StreamGreetingBytes(const std::string& name);

}  // namespace cohort
