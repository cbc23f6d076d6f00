#pragma once

// The address of a task is text in TensorFlow's form: "host:port", with an IPv6 literal in brackets
// ("[::1]:2222"), or "unix:PATH". Port 0 means "any free port" and is useful only to the task that
// listens at the address.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

struct Address {
  std::string host;       // the host without brackets; empty for a Unix socket
  int port = 0;           // the port, 0 to 65535; 0 for a Unix socket
  std::string unix_path;  // the path of a Unix socket; empty for TCP
};

// The address of a task that listens nowhere at present. Nothing listens at port 1 of loopback, so
// a call to it fails at once.
inline constexpr char kNowhere[] = "127.0.0.1:1";

// Parses the text of an address. Errors: INVALID_ARGUMENT that says what is wrong with `text` and
// which forms are accepted.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Returns true if `host` is the text of a loopback address, which only this machine can reach:
// 127.x.x.x, ::1 or localhost.
bool IsLoopback(absl::string_view host);

// Returns the address on which a task must listen so that other tasks reach it at the address
// `own`. If `own` is a loopback address or a Unix socket, this is `own` itself. Otherwise the task
// listens on all interfaces, because the name by which other tasks know this host need not belong
// to an interface.
Address ListenAddressOf(const Address& own);

// Returns the text of `address`, with brackets around an IPv6 host.
std::string FormatAddress(const Address& address);

}  // namespace cohort
