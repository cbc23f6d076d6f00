#include "coordinator/recovery/recovery_store.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"

namespace cohort {

namespace {
constexpr size_t kKept = 2;

std::string PrefixOf(const std::string& directory, uint64_t epoch, uint64_t number) {
  return JoinPath(directory, absl::StrCat("recovery-", epoch, "-", number));
}

// Epoch and number of a recovery checkpoint; nothing for another one.
std::optional<std::pair<uint64_t, uint64_t>> PlaceOf(const std::string& prefix) {
  const std::vector<std::string> parts =
      absl::StrSplit(prefix.substr(prefix.rfind('/') + 1), '-');
  uint64_t epoch = 0;
  uint64_t number = 0;
  if (parts.size() != 3 || parts[0] != "recovery" || !absl::SimpleAtoi(parts[1], &epoch) ||
      !absl::SimpleAtoi(parts[2], &number)) {
    return std::nullopt;
  }
  return std::make_pair(epoch, number);
}
}  // namespace

Tensor CoordinatorStateTensor(const proto::CoordinatorState& state) {
  const std::string bytes = state.SerializeAsString();
  Tensor tensor(DType::kUint8, Shape({static_cast<int64_t>(bytes.size())}));
  if (!bytes.empty()) std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  return tensor;
}

RecoveryStore::RecoveryStore(FileSystem& files, std::string directory)
    : files_(files), directory_(std::move(directory)) {}

absl::Status RecoveryStore::Prepare() { return files_.MakeDirectories(directory_); }

absl::StatusOr<std::optional<RecoveryStore::Committed>> RecoveryStore::ReadLatest() const {
  const absl::StatusOr<std::vector<std::string>> prefixes = ListCheckpoints(files_, directory_);
  if (absl::IsNotFound(prefixes.status())) return std::optional<Committed>();
  RETURN_IF_ERROR(prefixes.status());
  std::optional<std::pair<uint64_t, uint64_t>> latest;
  for (const std::string& prefix : *prefixes) {
    const auto place = PlaceOf(prefix);
    if (place.has_value() && (!latest.has_value() || *latest < *place)) latest = place;
  }
  if (!latest.has_value()) return std::optional<Committed>();
  Committed committed;
  committed.prefix = PrefixOf(directory_, latest->first, latest->second);
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                   BundleReader::Open(files_, committed.prefix));
  ASSIGN_OR_RETURN(const Tensor bytes, reader->Read(kCoordinatorStateName));
  if (!committed.state.ParseFromArray(bytes.raw(), static_cast<int>(bytes.num_bytes()))) {
    return absl::DataLossError(absl::StrCat("checkpoint ", committed.prefix, " holds a ",
                                            kCoordinatorStateName,
                                            " that is not a coordinator's state"));
  }
  return std::optional<Committed>(std::move(committed));
}

std::string RecoveryStore::NewPrefix(uint64_t epoch) {
  return PrefixOf(directory_, epoch, ++last_number_);
}

absl::Status RecoveryStore::Commit(const std::string& prefix, int num_shards,
                                   absl::Span<const proto::SavedSlice> slices) {
  RETURN_IF_ERROR(WriteIndex(files_, prefix, num_shards, slices));
  CheckpointState state;
  if (auto held = ReadCheckpointState(files_, directory_); held.ok()) state = *std::move(held);
  state.latest = prefix.substr(directory_.size() + 1);
  state.all.push_back(state.latest);
  std::vector<std::string> dropped;
  while (state.all.size() > kKept) {
    dropped.push_back(state.all.front());
    state.all.erase(state.all.begin());
  }
  RETURN_IF_ERROR(WriteCheckpointState(files_, directory_, state));
  for (const std::string& old : dropped) {
    // Left-over files cost room only.
    DeleteCheckpoint(files_, JoinPath(directory_, old)).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status RecoveryStore::Clear() {
  absl::StatusOr<std::vector<std::string>> prefixes = ListCheckpoints(files_, directory_);
  if (absl::IsNotFound(prefixes.status())) return absl::OkStatus();
  RETURN_IF_ERROR(prefixes.status());
  for (const std::string& prefix : *prefixes) {
    if (PlaceOf(prefix).has_value()) RETURN_IF_ERROR(DeleteCheckpoint(files_, prefix));
  }
  return files_.Remove(JoinPath(directory_, "checkpoint"));
}

}  // namespace cohort
