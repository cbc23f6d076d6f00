#pragma once

// Unix sockets whose names exist in the kernel only (abstract sockets). Such a socket leaves no
// file on a disk, and only processes of the same network namespace reach it. Both ends must belong
// to the same user. Internal to common/wire.

#include <sys/uio.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace cohort {

// Returns 128 random bits as hexadecimal text, for the name of a socket that no other process has.
std::string NewSocketNumber();

// ListenLocal opens a socket that listens under `name`, and ConnectLocal a socket that is connected
// to `name`. Both sockets are non-blocking. Errors: ALREADY_EXISTS or UNAVAILABLE naming `name`.
absl::StatusOr<UniqueFd> ListenLocal(const std::string& name);
absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name);

// Accepts the next connection from a process of this user. Returns an invalid descriptor if no
// connection waits.
UniqueFd AcceptLocal(const UniqueFd& listener);

// SendSome and SendPieces send as many bytes as the socket takes now, and pass `passed_fd` with the
// first byte, unless `passed_fd` is -1. Both return the number of bytes sent, which may be 0.
// Errors: UNAVAILABLE if the other end is gone.
absl::StatusOr<size_t> SendSome(const UniqueFd& socket, absl::Span<const char> bytes,
                                int passed_fd);
absl::StatusOr<size_t> SendPieces(const UniqueFd& socket, absl::Span<const iovec> pieces,
                                  int passed_fd);

// Reads bytes into `buffer`, and adds the descriptors that arrived with them to `passed`. Returns
// the number of bytes read, 0 if none are waiting. Errors: UNAVAILABLE if the other end is gone.
absl::StatusOr<size_t> ReceiveSome(const UniqueFd& socket, absl::Span<char> buffer,
                                   std::vector<UniqueFd>& passed);

}  // namespace cohort
