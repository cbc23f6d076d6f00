#include "worker/collective/shm/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errno_text.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kArenaAlignment = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

constexpr size_t kHeaderBytes = (sizeof(ShmHeader) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr size_t kBlockBytes = (sizeof(ShmRankBlock) + kPageBytes - 1) / kPageBytes * kPageBytes;

size_t ArenaOffset(uint32_t ranks) {
  return RoundUp(kHeaderBytes + ranks * kBlockBytes, kArenaAlignment);
}

absl::Status SystemError(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("memory that the ranks of a host share: ", what, ": ", ErrnoText(errno)));
}

// Returns true if a segment of `size` bytes can have this plan, which another process may have
// written: every number is in its range, and all arenas fit.
bool IsPossible(const ShmPlan& plan, size_t size) {
  return plan.ranks >= 1 && plan.ranks <= kHostRanksMax && plan.arena_bytes >= kOwnBytes &&
         plan.arena_bytes % kArenaAlignment == 0 && plan.slot_bytes_max <= kSlotBytes &&
         plan.piece_bytes <= kStagingBytes && plan.piece_bytes >= kPageBytes * plan.ranks &&
         plan.arena_bytes <= (size - ArenaOffset(plan.ranks)) / plan.ranks;
}

// The largest inputs that go through slots, and the sizes of pieces, in bytes: for ranks that poll
// ("spinning") and for ranks that sleep. A wake-up costs some 30 us, ten times a barrier of ranks
// that all run, so ranks that sleep take larger slots and pieces, which save barriers.
constexpr size_t kSlotBytesSpinning = size_t{16} << 10;
constexpr size_t kSlotBytesSleeping = size_t{64} << 10;
constexpr size_t kPieceBytesSpinning = size_t{1} << 20;
constexpr size_t kPieceBytesSleeping = size_t{4} << 20;

absl::StatusOr<std::byte*> MapWhole(const UniqueFd& fd, size_t size) {
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (data == MAP_FAILED) return SystemError(absl::StrCat("mapping ", size, " bytes"));
  return static_cast<std::byte*>(data);
}

}  // namespace

ShmPlan MakeShmPlan(int ranks, int cores, size_t arena_bytes) {
  // A rank without a core of its own must sleep, so that the other ranks can run.
  const bool spins = ranks <= cores;
  ShmPlan plan;
  plan.ranks = static_cast<uint32_t>(ranks);
  plan.spins = spins ? 1 : 0;
  plan.arena_bytes = RoundUp(arena_bytes, kArenaAlignment);
  plan.slot_bytes_max = spins ? kSlotBytesSpinning : kSlotBytesSleeping;
  plan.piece_bytes = spins ? kPieceBytesSpinning : kPieceBytesSleeping;
  return plan;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Make(const ShmPlan& plan) {
  const size_t size = ArenaOffset(plan.ranks) + plan.ranks * plan.arena_bytes;
  COHORT_CHECK(IsPossible(plan, size), "a plan within the limits");
  UniqueFd fd(memfd_create("cohort-group", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.ok()) return SystemError("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return SystemError("ftruncate");
  // The size is sealed, so that the ranks that map the memory can rely on it.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("sealing");
  }
  ASSIGN_OR_RETURN(std::byte* const data, MapWhole(fd, size));
  std::shared_ptr<ShmSegment> segment(new ShmSegment(std::move(fd), data, size));
  // No other rank has the descriptor yet, so the header and the blocks are made without locks.
  auto* const header = new (data) ShmHeader;
  header->plan = plan;
  const ssize_t random = getrandom(header->nonce.data(), sizeof(header->nonce), 0);
  COHORT_CHECK(random == sizeof(header->nonce), "the kernel has random bytes");
  for (int rank = 0; rank < segment->ranks(); ++rank) new (&segment->block(rank)) ShmRankBlock;
  return segment;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Map(UniqueFd fd) {
  // Without the seal, another process could shrink the memory under this mapping.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat info = {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &info) != 0) {
    return absl::InvalidArgumentError("a peer's segment is not memory of sealed size");
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size < kHeaderBytes + kBlockBytes + kOwnBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a peer's segment has ", size, " bytes, which is not the size of a group's memory"));
  }
  ASSIGN_OR_RETURN(std::byte* const data, MapWhole(fd, size));
  std::shared_ptr<ShmSegment> segment(new ShmSegment(std::move(fd), data, size));
  // The plan in the header comes from another process and must fit the mapping.
  if (!IsPossible(segment->plan(), size)) {
    return absl::InvalidArgumentError("what a peer shares is not laid out as a group's memory");
  }
  return segment;
}

ShmSegment::~ShmSegment() { munmap(data_, size_); }

ShmRankBlock& ShmSegment::block(int rank) const {
  return *reinterpret_cast<ShmRankBlock*>(data_ + kHeaderBytes +
                                          static_cast<size_t>(rank) * kBlockBytes);
}

absl::Span<std::byte> ShmSegment::arena(int rank) const {
  const size_t bytes = plan().arena_bytes;
  return absl::MakeSpan(data_ + ArenaOffset(plan().ranks) + static_cast<size_t>(rank) * bytes,
                        bytes);
}

void ShmSegment::Detach(absl::Span<std::byte> memory) const {
  const auto offset = static_cast<size_t>(memory.data() - data_);
  const size_t begin = offset / kPageBytes * kPageBytes;
  const size_t end = RoundUp(offset + memory.size(), kPageBytes);
  void* const copy = mmap(nullptr, end - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  COHORT_CHECK(copy != MAP_FAILED, "memory for results that a stopped rank may still write");
  std::memcpy(copy, data_ + begin, end - begin);
  // The private copy replaces the shared pages in one step, at the same address.
  void* const moved =
      mremap(copy, end - begin, end - begin, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + begin);
  COHORT_CHECK(moved == data_ + begin, "the copy was mapped over the segment");
}

}  // namespace cohort
