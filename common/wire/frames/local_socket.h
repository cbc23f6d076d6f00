#pragma once

// Unix sockets with names that live in the kernel alone: nothing is left behind on a disk, and only
// processes of the same network namespace reach them. Both ends must belong to the same user.
// Internal to common/wire.

#include <sys/uio.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace cohort {

// Returns a number that no other socket of the machine has in its name: 128 random bits.
std::string NewSocketNumber();

// Opens non-blocking sockets. Errors: ALREADY_EXISTS or UNAVAILABLE naming `name`.
absl::StatusOr<UniqueFd> ListenLocal(const std::string& name);
absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name);

// Returns the next peer of this user, or a descriptor that is not ok() if none waits.
UniqueFd AcceptLocal(const UniqueFd& listener);

// Sends what fits and with its first byte `passed_fd`, unless that is -1. The number of bytes, 0
// when none fit; UNAVAILABLE when the other end is gone.
absl::StatusOr<size_t> SendSome(const UniqueFd& socket, absl::Span<const char> bytes,
                                int passed_fd);
absl::StatusOr<size_t> SendPieces(const UniqueFd& socket, absl::Span<const iovec> pieces,
                                  int passed_fd);

// Reads into `buffer` and adds descriptors that came along. The number of bytes, 0 when none are
// there; UNAVAILABLE when the other end is gone.
absl::StatusOr<size_t> ReceiveSome(const UniqueFd& socket, absl::Span<char> buffer,
                                   std::vector<UniqueFd>& passed);

}  // namespace cohort
