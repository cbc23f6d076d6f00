#pragma once

// The address of a task is text, as TensorFlow writes it: "host:port", with an IPv6 literal in
// brackets ("[::1]:2222"), or "unix:PATH". Port 0 means "any free port" and is of use only to the
// task that listens there.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

struct Address {
  std::string host;       // without brackets; empty for a unix socket
  int port = 0;           // 0 ... 65535; 0 for a unix socket
  std::string unix_path;  // empty for TCP
};

// Errors: INVALID_ARGUMENT saying what is wrong with `text` and what is wanted.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Returns whether the host is written as an address of this machine alone: 127.x.x.x, ::1 or
// localhost.
bool IsLoopback(absl::string_view host);

// Returns the address on which a task listens that others reach at `own`: `own` alone if it is
// loopback or a unix socket, else all interfaces, because the name by which others know this host
// need not belong to an interface.
Address ListenAddressOf(const Address& own);

// Returns the text of `address`, with brackets where they are needed.
std::string FormatAddress(const Address& address);

}  // namespace cohort
