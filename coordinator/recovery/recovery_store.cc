#include "coordinator/recovery/recovery_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The number of complete checkpoints that Commit keeps in the directory.
constexpr size_t kKept = 2;

// The epoch and the number of a recovery checkpoint. Newer checkpoints have greater pairs.
using Place = std::pair<uint64_t, uint64_t>;

std::string PrefixOf(const std::string& directory, const Place& place) {
  return JoinPath(directory, absl::StrCat("recovery-", place.first, "-", place.second));
}

// Returns the epoch and the number in the file name `name`. Returns nothing if the file does not
// belong to a recovery checkpoint.
std::optional<Place> PlaceOf(absl::string_view name) {
  const absl::string_view base = name.substr(0, name.find('.'));
  const std::vector<absl::string_view> parts = absl::StrSplit(base, '-');
  Place place;
  if (parts.size() != 3 || parts[0] != "recovery" || !absl::SimpleAtoi(parts[1], &place.first) ||
      !absl::SimpleAtoi(parts[2], &place.second) ||
      !IsCheckpointFile(name, absl::StrCat("recovery-", place.first, "-", place.second))) {
    return std::nullopt;
  }
  return place;
}

// The names of the files of one recovery checkpoint.
struct Files {
  std::vector<std::string> names;
  bool complete = false;  // whether the checkpoint has an index, which is written last
};
// The files of each checkpoint, newest checkpoint first.
using Places = std::map<Place, Files, std::greater<>>;

// Lists the files of the recovery checkpoints in a directory. If the directory does not exist, the
// list is empty. Errors: those of FileSystem::List, except NOT_FOUND.
absl::StatusOr<Places> ListPlaces(FileSystem& files, const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (absl::IsNotFound(names.status())) return Places();
  RETURN_IF_ERROR(names.status());
  Places places;
  for (const std::string& name : *names) {
    const std::optional<Place> place = PlaceOf(name);
    if (!place.has_value()) continue;
    Files& of_place = places[*place];
    of_place.names.push_back(name);
    of_place.complete =
        of_place.complete || JoinPath(directory, name) == IndexPath(PrefixOf(directory, *place));
  }
  return places;
}

// Removes the files of one checkpoint. Ignores failures, because files that are left behind only
// take disk space.
void RemoveFiles(FileSystem& files, const std::string& directory, const Place& place,
                 const Files& left) {
  // The index is removed first, so that no reader finds a checkpoint without its shards.
  files.Remove(IndexPath(PrefixOf(directory, place))).IgnoreError();
  for (const std::string& name : left.names) {
    files.Remove(JoinPath(directory, name)).IgnoreError();
  }
}

// Reads the coordinator's state from a recovery checkpoint.
absl::StatusOr<proto::CoordinatorState> ReadState(FileSystem& files, const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(files, prefix));
  ASSIGN_OR_RETURN(const Tensor bytes, reader->Read(kCoordinatorStateName));
  proto::CoordinatorState state;
  if (!state.ParseFromArray(bytes.raw(), static_cast<int>(bytes.num_bytes()))) {
    return absl::DataLossError(absl::StrCat("checkpoint ", prefix, " holds a ",
                                            kCoordinatorStateName,
                                            " that is not a coordinator's state"));
  }
  return state;
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

absl::StatusOr<RecoveryStore::Left> RecoveryStore::ReadLeft() const {
  ASSIGN_OR_RETURN(const Places places, ListPlaces(files_, directory_));
  Left left;
  for (const auto& [place, of_place] : places) {
    if (!of_place.complete) continue;
    // Even a damaged checkpoint counts, because its name shows that a coordinator has held this
    // epoch.
    left.epoch = std::max(left.epoch, place.first);
    Committed committed;
    committed.prefix = PrefixOf(directory_, place);
    absl::StatusOr<proto::CoordinatorState> state = ReadState(files_, committed.prefix);
    if (!state.ok()) {
      // If reading fails for another reason, such as a disk error, the checkpoint itself may be
      // whole. So no older one is used in its place.
      if (!absl::IsDataLoss(state.status()) && !absl::IsNotFound(state.status())) {
        return state.status();
      }
      if (left.checkpoints.empty()) left.damage.Update(state.status());
      continue;
    }
    committed.state = *std::move(state);
    left.checkpoints.push_back(std::move(committed));
  }
  if (left.checkpoints.empty() && !left.damage.ok()) {
    return absl::DataLossError(absl::StrCat("no recovery checkpoint is whole; remove ", directory_,
                                            "/recovery-* to start anew. Of the newest one ",
                                            left.damage.message()));
  }
  return left;
}

absl::StatusOr<SliceStarts> RecoveryStore::ReadSlices(const Left& left) const {
  if (left.checkpoints.empty()) return SliceStarts();
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                   BundleReader::Open(files_, left.checkpoints.front().prefix));
  return SliceStartsOf(reader->tensors());
}

absl::Status RecoveryStore::CheckJob(const Left& left, const std::string& job) const {
  for (const Committed& one : left.checkpoints) {
    if (one.state.job() == job) continue;
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the recovery directory ", directory_, " holds the state of job '",
                     one.state.job(), "', this is job '", job, "': name the job '", one.state.job(),
                     "' to go on, give each job a directory of its own (recovery.directory), or "
                     "remove ",
                     JoinPath(directory_, "recovery-*"), " to start anew"),
        proto::CONFIGURATION);
  }
  return absl::OkStatus();
}

std::string RecoveryStore::NewPrefix(uint64_t epoch) {
  return PrefixOf(directory_, {epoch, ++last_number_});
}

absl::Status RecoveryStore::Commit(const std::string& prefix, int num_shards,
                                   absl::Span<const proto::SavedSlice> slices) {
  // With its index, the checkpoint is complete. The rest only removes old files.
  RETURN_IF_ERROR(WriteIndex(files_, prefix, num_shards, slices));
  const absl::StatusOr<Places> places = ListPlaces(files_, directory_);
  if (!places.ok()) return absl::OkStatus();  // the next Commit() removes the old files
  size_t kept = 0;
  for (const auto& [place, of_place] : *places) {
    // If the newest checkpoints are incomplete, another coordinator that has taken over may be
    // writing one of them now.
    if (kept == 0 && !of_place.complete) continue;
    if (of_place.complete && kept < kKept) {
      ++kept;
    } else {
      RemoveFiles(files_, directory_, place, of_place);
    }
  }
  return absl::OkStatus();
}

void RecoveryStore::Discard(const std::string& prefix) {
  DeleteCheckpoint(files_, prefix).IgnoreError();
}

void RecoveryStore::RemoveLeftovers(uint64_t epoch) {
  const absl::StatusOr<Places> places = ListPlaces(files_, directory_);
  if (!places.ok()) return;
  for (const auto& [place, of_place] : *places) {
    // Complete checkpoints are kept, whatever their epoch.
    if (place.first < epoch && !of_place.complete) {
      RemoveFiles(files_, directory_, place, of_place);
    }
  }
}

absl::Status RecoveryStore::Clear() {
  ASSIGN_OR_RETURN(const Places places, ListPlaces(files_, directory_));
  absl::Status first;
  for (const auto& [place, of_place] : places) {
    first.Update(DeleteCheckpoint(files_, PrefixOf(directory_, place)));
  }
  return first;
}

}  // namespace cohort
