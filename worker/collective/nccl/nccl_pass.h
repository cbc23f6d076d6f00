#pragma once

// The message by which ranks introduce themselves before they join: whether each has a device and
// which NCCL, and rank 0's id of the group. All ranks hear all of them, so all know alike whether
// they join, and name the same ranks that cannot.

#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

struct NcclPass {
  static constexpr size_t kBytes = 1024;  // bytes of each rank, the words included

  absl::Status usable;  // else a message is shown, and cut where it is longer
  int32_t nccl_version = 0;
  uint64_t piece_bytes = 0;                   // the size by which all ranks cut their calls
  std::array<uint8_t, kNcclIdBytes> id = {};  // rank 0's
};

std::array<std::byte, NcclPass::kBytes> EncodePass(const NcclPass& pass);
NcclPass DecodePass(absl::Span<const std::byte> bytes);

// Errors: FAILED_PRECONDITION naming each rank that cannot take part and why, or those that differ.
absl::Status CheckPasses(absl::Span<const NcclPass> passes);

}  // namespace cohort
