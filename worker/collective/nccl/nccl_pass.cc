#include "worker/collective/nccl/nccl_pass.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/error_detail.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

namespace {

// The layout of an encoded message, by the offsets of its fields in bytes:
//   0    usable, 1 or 0
//   4    NCCL's version
//   8    id of the group
//   136  bytes of a piece
//   144  error text, followed by zeros
constexpr size_t kVersionAt = 4;
constexpr size_t kIdAt = 8;
constexpr size_t kPieceAt = kIdAt + kNcclIdBytes;
constexpr size_t kWordsAt = kPieceAt + sizeof(uint64_t);
constexpr size_t kWordsMax = NcclPass::kBytes - kWordsAt;

absl::Status Refuse(const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the ranks cannot use NCCL: ", why), proto::CONFIGURATION);
}

}  // namespace

std::array<std::byte, NcclPass::kBytes> EncodePass(const NcclPass& pass) {
  std::array<std::byte, NcclPass::kBytes> bytes = {};
  bytes[0] = std::byte{pass.usable.ok()};
  std::memcpy(&bytes[kVersionAt], &pass.nccl_version, sizeof(pass.nccl_version));
  std::memcpy(&bytes[kIdAt], pass.id.data(), pass.id.size());
  std::memcpy(&bytes[kPieceAt], &pass.piece_bytes, sizeof(pass.piece_bytes));
  const absl::string_view words = pass.usable.message().substr(0, kWordsMax);
  if (!words.empty()) std::memcpy(&bytes[kWordsAt], words.data(), words.size());
  return bytes;
}

NcclPass DecodePass(absl::Span<const std::byte> bytes) {
  NcclPass pass;
  std::memcpy(&pass.nccl_version, &bytes[kVersionAt], sizeof(pass.nccl_version));
  std::memcpy(pass.id.data(), &bytes[kIdAt], pass.id.size());
  std::memcpy(&pass.piece_bytes, &bytes[kPieceAt], sizeof(pass.piece_bytes));
  // A rank that can join sends no error text.
  if (bytes[0] != std::byte{0}) return pass;
  const auto* const words = reinterpret_cast<const char*>(&bytes[kWordsAt]);
  // An error text that fills the message has no zero after it.
  const std::string text(words, strnlen(words, kWordsMax));
  pass.usable = absl::FailedPreconditionError(text);
  return pass;
}

absl::Status CheckPasses(absl::Span<const NcclPass> passes) {
  std::vector<std::string> unusable;
  for (size_t rank = 0; rank < passes.size(); ++rank) {
    if (passes[rank].usable.ok()) continue;
    unusable.push_back(absl::StrCat("rank ", rank, ": ", passes[rank].usable.message()));
  }
  if (!unusable.empty()) return Refuse(absl::StrJoin(unusable, "; "));
  for (size_t rank = 1; rank < passes.size(); ++rank) {
    if (passes[rank].nccl_version != passes[0].nccl_version) {
      return Refuse(absl::StrCat("rank 0 has NCCL ", NcclVersionWords(passes[0].nccl_version),
                                 " and rank ", rank, " NCCL ",
                                 NcclVersionWords(passes[rank].nccl_version),
                                 "; install one version everywhere"));
    }
    if (passes[rank].piece_bytes != passes[0].piece_bytes) {
      return Refuse(absl::StrCat("rank 0 cuts calls into pieces of ", passes[0].piece_bytes,
                                 " bytes and rank ", rank, " of ", passes[rank].piece_bytes,
                                 "; start all workers of one build"));
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
