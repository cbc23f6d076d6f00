#include "coordinator/train/train_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace cohort {

bool TrainProgress::Begun::IsLeft(ClosureId id) const {
  return !(id < next) || std::binary_search(open.begin(), open.end(), id);
}

absl::Status TrainProgress::Load(const proto::CoordinatorState& state) {
  proto::TrainState train;
  if (!train.ParseFromString(state.application())) {
    return absl::DataLossError("the recovery checkpoint holds no state of a training");
  }
  // Closures of another job would mean other steps under the same ids.
  if (train.settings() != settings_) {
    return absl::FailedPreconditionError(
        "the recovery checkpoint was made by a job with another model, optimizer, learning rate, "
        "loss, metrics, data, seed, strategy, batch size, validation split, shuffling, "
        "steps_per_epoch or steps_per_execution, which cannot be gone on with: remove its "
        "directory, or name another one in recovery.directory, to start anew");
  }
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckDataLocked(train));
  const std::vector<std::string> devices(train.devices().begin(), train.devices().end());
  // A saved state without devices comes from a job that names its devices.
  if (!devices.empty() && devices != devices_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the recovery checkpoint was made on all devices of each worker, which were ",
        absl::StrJoin(devices, ", "), ", and now are ", absl::StrJoin(devices_, ", "),
        ": start workers that have the same ones; or, to start anew, remove its directory or name "
        "another one in recovery.directory, where checkpoint.restore=latest goes on from the last "
        "checkpoint of checkpoint.directory"));
  }
  progress_ = {train.global_step(), train.epochs_done(),
               DataPosition{train.data_pass(), train.data_examples()}};
  totals_ = {train.examples(), train.seconds()};
  // No epoch was under way when the state was saved.
  if (train.first_id() == 0) return absl::OkStatus();
  Begun begun;
  begun.first = ClosureId{train.first_id()};
  begun.next = ClosureId{state.next_id()};
  for (const uint64_t id : state.open()) begun.open.push_back(ClosureId{id});
  begun.sums.steps = train.steps();
  begun.sums.values.assign(train.sums().begin(), train.sums().end());
  begun_ = std::move(begun);
  return absl::OkStatus();
}

absl::Status TrainProgress::CheckDataLocked(const proto::TrainState& train) const {
  const DataIdentity before{train.data_length(), train.data_content()};
  if (before == data_) return absl::OkStatus();
  // The length is compared first, because it tells the user more than a checksum.
  const std::string change =
      before.length != data_.length
          ? absl::StrCat("had ", before.length, " examples, and now there are ", data_.length)
          : absl::StrCat("had the checksum ", absl::Hex(before.content, absl::kZeroPad8),
                         ", and now, of as many examples (", data_.length, "), have ",
                         absl::Hex(data_.content, absl::kZeroPad8));
  return absl::FailedPreconditionError(absl::StrCat(
      "the data changed since the recovery checkpoint was made: those to train on ", change,
      ". Put the former ones back to go on; to start anew, remove its directory or name another "
      "one in recovery.directory"));
}

std::vector<uint32_t> TrainProgress::HomesIn(const proto::CoordinatorState& state) {
  proto::TrainState train;
  // A state that cannot be read has no homes; Load() reports the error.
  if (!train.ParseFromString(state.application())) return {};
  return {train.homes().begin(), train.homes().end()};
}

Progress TrainProgress::progress() const {
  MutexLock lock(mutex_);
  return progress_;
}

TrainProgress::Totals TrainProgress::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

std::optional<TrainProgress::Begun> TrainProgress::BeginEpoch(ClosureId first) {
  MutexLock lock(mutex_);
  // Only the first epoch of a process continues an epoch of an earlier one.
  std::optional<Begun> begun = std::exchange(begun_, std::nullopt);
  first_ = begun.has_value() ? begun->first : first;
  sums_before_ = begun.has_value() ? begun->sums : EpochMeter::Sums();
  reported_.clear();
  return begun;
}

void TrainProgress::EndEpoch(int64_t steps, const DataPosition& data, const Totals& epoch) {
  MutexLock lock(mutex_);
  progress_.global_step += steps;
  progress_.epochs_done += 1;
  progress_.data = data;
  totals_.examples += epoch.examples;
  totals_.seconds += epoch.seconds;
  first_ = ClosureId{};
  reported_.clear();
}

void TrainProgress::SetProgress(const Progress& progress) {
  MutexLock lock(mutex_);
  progress_ = progress;
}

void TrainProgress::SetDevices(std::vector<std::string> devices) {
  MutexLock lock(mutex_);
  devices_ = std::move(devices);
}

void TrainProgress::SetData(DataIdentity data) {
  MutexLock lock(mutex_);
  data_ = data;
}

void TrainProgress::SetHomes(std::vector<uint32_t> homes) {
  MutexLock lock(mutex_);
  homes_ = std::move(homes);
}

std::string TrainProgress::Save(const Cut& cut) {
  MutexLock lock(mutex_);
  proto::TrainState train;
  train.set_settings(settings_);
  train.set_global_step(progress_.global_step);
  train.set_epochs_done(progress_.epochs_done);
  train.set_data_pass(progress_.data.pass);
  train.set_data_examples(progress_.data.examples);
  train.set_examples(totals_.examples);
  train.set_seconds(totals_.seconds);
  train.mutable_homes()->Add(homes_.begin(), homes_.end());
  for (const std::string& device : devices_) train.add_devices(device);
  train.set_data_length(data_.length);
  train.set_data_content(data_.content);
  train.set_first_id(first_.value);
  // Between two epochs no closure of an epoch is covered.
  if (first_.value == 0) return train.SerializeAsString();
  // A closure has no sums if nobody holds its result or the result is not ready.
  for (const Cut::Covered& covered : cut.covered) {
    if (covered.id < first_ || covered.result == nullptr || !covered.result->IsReady()) continue;
    EpochMeter::Sums& reported = reported_[covered.id] = {};
    for (const auto& step : EpochMeter::StepsOf(covered.result->result(), covered.steps)) {
      reported.Add(step);
    }
  }
  EpochMeter::Sums sums = sums_before_;
  for (const auto& [id, reported] : reported_) {
    // The sums of a closure that a restore took back count only when a cut covers it again.
    if (cut.Covers(id)) sums.Add(reported);
  }
  train.set_steps(sums.steps);
  for (const double sum : sums.values) train.add_sums(sum);
  return train.SerializeAsString();
}

}  // namespace cohort
