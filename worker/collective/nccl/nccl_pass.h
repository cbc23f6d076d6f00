#pragma once

// The message by which a rank introduces itself before the ranks join NCCL: whether it can use a
// GPU and NCCL, its version of NCCL, and, from rank 0, NCCL's id of the group. Every rank gets the
// messages of all ranks. So all ranks come to the same decision whether to join, and name the same
// ranks that cannot.

#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

struct NcclPass {
  // The size of an encoded message in bytes, including the error text.
  static constexpr size_t kBytes = 1024;

  absl::Status usable;  // OK, or why the rank cannot join; a long text is cut off
  int32_t nccl_version = 0;
  uint64_t piece_bytes = 0;                   // size of the pieces into which the rank cuts calls
  std::array<uint8_t, kNcclIdBytes> id = {};  // NCCL's id of the group, from rank 0
};

std::array<std::byte, NcclPass::kBytes> EncodePass(const NcclPass& pass);
NcclPass DecodePass(absl::Span<const std::byte> bytes);

// Checks the messages of all ranks. Errors: FAILED_PRECONDITION naming each rank that cannot join
// and why, or the first rank whose NCCL version or piece size differs from that of rank 0.
absl::Status CheckPasses(absl::Span<const NcclPass> passes);

}  // namespace cohort
