#pragma once

// Unix sockets whose names exist in the kernel only (abstract sockets). No file is left behind on a
// disk, and only processes of the same network namespace reach the sockets. Both ends must belong
// to the same user. Internal to common/wire.

#include <sys/uio.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace cohort {

// Returns a number for a socket's name, 128 random bits, which no other socket of the machine has.
std::string NewSocketNumber();

// Opens a listening socket; ConnectLocal opens a connected one. Both sockets are non-blocking.
// Errors: ALREADY_EXISTS or UNAVAILABLE naming `name`.
absl::StatusOr<UniqueFd> ListenLocal(const std::string& name);
absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name);

// Returns the next connection from a process of this user, or an invalid descriptor if no
// connection waits.
UniqueFd AcceptLocal(const UniqueFd& listener);

// Sends as many bytes as fit, and `passed_fd` with the first byte, unless `passed_fd` is -1.
// Returns the number of bytes, 0 if none fit. Errors: UNAVAILABLE if the other end is gone.
absl::StatusOr<size_t> SendSome(const UniqueFd& socket, absl::Span<const char> bytes,
                                int passed_fd);
absl::StatusOr<size_t> SendPieces(const UniqueFd& socket, absl::Span<const iovec> pieces,
                                  int passed_fd);

// Reads into `buffer` and adds the descriptors that came with the bytes to `passed`. Returns the
// number of bytes, 0 if none are waiting. Errors: UNAVAILABLE if the other end is gone.
absl::StatusOr<size_t> ReceiveSome(const UniqueFd& socket, absl::Span<char> buffer,
                                   std::vector<UniqueFd>& passed);

}  // namespace cohort
