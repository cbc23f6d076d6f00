#include "coordinator/train/train_progress.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/crc32c.h"
#include "common/base/file_system.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

using Values = google::protobuf::RepeatedField<double>;

void Append(const std::vector<double>& values, Values* to) {
  to->Add(values.begin(), values.end());
}

// Returns the error for a recovery checkpoint that is not of this job: the user's settings or
// directory are to be corrected.
absl::Status Misplaced(absl::string_view text) {
  return MakeError(absl::StatusCode::kFailedPrecondition, text, proto::CONFIGURATION);
}

// Returns the sums in a saved state, or nothing if the state has none.
std::optional<EpochMeter::Sums> SumsOf(const Values& values) {
  if (values.empty()) return std::nullopt;
  return EpochMeter::Sums{0, {values.begin(), values.end()}};
}

}  // namespace

bool TrainProgress::Begun::IsLeft(int64_t step) const {
  if (evaluated.count(step) > 0) return false;
  const ClosureId id{first.value + static_cast<uint64_t>(step)};
  return !(id < next) || std::binary_search(open.begin(), open.end(), id);
}

std::string TrainProgress::StartAnew() const {
  return absl::StrCat("remove ", JoinPath(job_.recovery_directory, "recovery-*"),
                      ", or name another directory in recovery.directory");
}

absl::StatusOr<proto::TrainState> TrainProgress::Parse(const proto::CoordinatorState& state) const {
  proto::TrainState train;
  if (state.application().empty()) {
    return Misplaced(absl::StrCat(
        "the recovery checkpoint holds no state of a training: it was made by another program, or "
        "before the training began; to start anew, ",
        StartAnew()));
  }
  if (!train.ParseFromString(state.application())) {
    return absl::DataLossError(absl::StrCat(
        "the recovery checkpoint holds a state of a training that cannot be read; to start anew, ",
        StartAnew()));
  }
  // The settings must be equal, because in a job with other settings the same closure ids would
  // mean other steps.
  if (train.settings() == Crc32c(job_.settings.text)) return train;
  const std::string difference = SettingsDifference(train.settings_text(), job_.settings);
  return Misplaced(absl::StrCat(
      "the recovery checkpoint was made by a job with ",
      difference.empty()
          ? "another model, optimizer, learning rate, loss, metrics, data, seed, strategy, batch "
            "size, validation split, shuffling, weights of examples or classes, steps_per_epoch or "
            "steps_per_execution"
          : absl::StrCat("other settings: ", difference),
      "; the training cannot continue from it: set them back to go on; to start anew, ",
      StartAnew()));
}

absl::Status TrainProgress::CheckSettings(const proto::CoordinatorState& state) const {
  return Parse(state).status();
}

absl::Status TrainProgress::Load(const proto::CoordinatorState& state) {
  ASSIGN_OR_RETURN(const proto::TrainState train, Parse(state));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckDataLocked(train));
  const std::vector<std::string> devices(train.devices().begin(), train.devices().end());
  // The saved state has no devices if the job names its devices.
  if (!devices.empty() && devices != devices_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the recovery checkpoint was made on all devices of each worker, which were ",
                     absl::StrJoin(devices, ", "), ", and now are ", absl::StrJoin(devices_, ", "),
                     ": start workers that have the same ones; or, to start anew, ", StartAnew(),
                     job_.saves_checkpoints
                         ? ", where checkpoint.restore=latest goes on from the last checkpoint of "
                           "checkpoint.directory"
                         : ""));
  }
  progress_ = {train.global_step(), train.epochs_done(),
               DataPosition{train.data_pass(), train.data_examples()}};
  before_ = {train.steps_before(), train.epochs_before(), {}};
  checkpoint_ = {train.checkpoint(), train.checkpoint_step()};
  planned_ = {train.planned(), train.planned_step()};
  totals_ = {train.examples(), train.seconds()};
  results_ = {SumsOf(train.trained()), SumsOf(train.validated())};
  is_trained_ = train.epoch_trained();
  next_before_ = ClosureId{state.next_id()};
  // The first id 0 says that no pass over data was under way when the state was saved.
  if (train.first_id() == 0) return absl::OkStatus();
  pass_ = train.pass();
  pass_data_ = {train.pass_length(), train.pass_content()};
  Begun begun;
  begun.first = ClosureId{train.first_id()};
  begun.evaluated.insert(train.evaluated().begin(), train.evaluated().end());
  if (pass_ == proto::TrainState::TRAINING) {
    begun.next = ClosureId{state.next_id()};
    for (const uint64_t id : state.open()) begun.open.push_back(ClosureId{id});
  }
  begun.sums.steps = train.steps();
  begun.sums.values.assign(train.sums().begin(), train.sums().end());
  begun_ = std::move(begun);
  return absl::OkStatus();
}

absl::Status TrainProgress::CheckDataLocked(const proto::TrainState& train) const {
  const DataIdentity before{train.data_length(), train.data_content()};
  if (before == data_) return absl::OkStatus();
  // The numbers of examples are compared first, because a difference in them tells the user more
  // than a checksum.
  const std::string change =
      before.length != data_.length
          ? absl::StrCat("had ", before.length, " examples, and now there are ", data_.length)
          : absl::StrCat("had the checksum ", absl::Hex(before.content, absl::kZeroPad8),
                         ", and now, of as many examples (", data_.length, "), have ",
                         absl::Hex(data_.content, absl::kZeroPad8));
  return absl::FailedPreconditionError(absl::StrCat(
      "the data changed since the recovery checkpoint was made: those to train on ", change,
      FirstDifference({absl::StrCat("then ", train.data_worker()), train.data_files()},
                      {absl::StrCat("now ", data_worker_), data_files_}),
      ". Put the former ones back to go on; to start anew, ", StartAnew()));
}

std::vector<uint32_t> TrainProgress::HomesIn(const proto::CoordinatorState& state) {
  proto::TrainState train;
  // If the state cannot be read, no homes are returned; Load() later reports the error.
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

TrainProgress::Begun TrainProgress::BeginPass(proto::TrainState::Pass pass, ClosureId next,
                                              const DataIdentity& data) {
  MutexLock lock(mutex_);
  // Only the first pass of a process can continue a pass that an earlier process has begun.
  std::optional<Begun> begun = std::exchange(begun_, std::nullopt);
  // The saved pass can be of another kind (training, validation or test) than the one that begins
  // now, because the user may change the number of epochs between two runs of the job.
  if (pass != pass_) begun.reset();
  // Only test data are compared here. Load() has compared the training data, of which the
  // validation data are a part.
  if (begun.has_value() && pass == proto::TrainState::TEST && !(data == pass_data_)) {
    Log(LogLevel::kWarning, "test_begins_anew", {{"cause", "the data of data.test changed"}});
    begun.reset();
  }
  // A cut counts a closure with an id below `next_before_` as covered unless the earlier state
  // lists it as open. So a new pass has no ids below `next_before_`.
  const ClosureId first = std::max(next, next_before_);
  if (!begun.has_value()) begun = Begun{first, {}, first, {}, {}};
  // The closures of an evaluation get new ids, because the earlier process's cut does not say which
  // of them are done.
  if (pass != proto::TrainState::TRAINING) begun->first = begun->next = first;
  pass_ = pass;
  pass_data_ = data;
  first_ = begun->first;
  sums_before_ = begun->sums;
  evaluated_ = begun->evaluated;
  reported_.clear();
  settled_ = ClosureId{};
  return *std::move(begun);
}

void TrainProgress::AddEvaluated(int64_t step, const std::vector<EpochMeter::Sums>& sums) {
  MutexLock lock(mutex_);
  if (pass_ == proto::TrainState::TRAINING || sums.empty()) return;
  evaluated_.insert(step);
  for (const EpochMeter::Sums& of_step : sums) sums_before_.Add(of_step);
}

void TrainProgress::EndTraining(int64_t steps, const DataPosition& data, const Totals& epoch,
                                const EpochMeter::Sums& sums) {
  MutexLock lock(mutex_);
  progress_.global_step += steps;
  progress_.data = data;
  totals_.examples += epoch.examples;
  totals_.seconds += epoch.seconds;
  results_ = {sums, std::nullopt};
  is_trained_ = true;
  EndPassLocked();
}

void TrainProgress::EndValidation(const EpochMeter::Sums& sums) {
  MutexLock lock(mutex_);
  results_.validated = sums;
  EndPassLocked();
}

void TrainProgress::EndEpoch() {
  MutexLock lock(mutex_);
  progress_.epochs_done += 1;
  is_trained_ = false;
}

void TrainProgress::EndPassLocked() {
  first_ = ClosureId{};
  evaluated_.clear();
  reported_.clear();
}

TrainProgress::Results TrainProgress::epoch_results() const {
  MutexLock lock(mutex_);
  if (!is_trained_) return Results();
  return {results_.trained.value_or(EpochMeter::Sums()), results_.validated};
}

TrainProgress::Results TrainProgress::last_results() const {
  MutexLock lock(mutex_);
  return results_;
}

void TrainProgress::SetProgress(const Progress& progress, const std::string& prefix) {
  MutexLock lock(mutex_);
  progress_ = before_ = progress;
  checkpoint_ = {prefix, progress.global_step};
}

Progress TrainProgress::before() const {
  MutexLock lock(mutex_);
  return before_;
}

void TrainProgress::EndEarly(const Excess& excess) {
  MutexLock lock(mutex_);
  if (is_trained_) progress_.epochs_done += 1;
  is_trained_ = false;
  progress_.global_step += excess.updates;
  if (excess.updates > 0) {
    progress_.data = excess.data;
    totals_.examples += excess.examples;
  }
  // The steps of the training epoch under way count as done now, so no pass continues them. A test
  // that is under way goes on.
  if (pass_ != proto::TrainState::TEST) begun_.reset();
  EndPassLocked();
}

bool TrainProgress::IsMade(int64_t step) const {
  MutexLock lock(mutex_);
  return begun_.has_value() && pass_ == proto::TrainState::TRAINING && !begun_->IsLeft(step);
}

void TrainProgress::PlanCheckpoint(const SavedCheckpoint& planned) {
  MutexLock lock(mutex_);
  planned_ = planned;
}

TrainProgress::SavedCheckpoint TrainProgress::planned_checkpoint() const {
  MutexLock lock(mutex_);
  return planned_;
}

TrainProgress::SavedCheckpoint TrainProgress::checkpoint() const {
  MutexLock lock(mutex_);
  return checkpoint_;
}

void TrainProgress::SetCheckpoint(const std::string& prefix) {
  MutexLock lock(mutex_);
  checkpoint_ = {prefix, progress_.global_step};
}

void TrainProgress::SetDevices(std::vector<std::string> devices) {
  MutexLock lock(mutex_);
  devices_ = std::move(devices);
}

void TrainProgress::SetData(DataIdentity data, const FilesOfReader& files) {
  MutexLock lock(mutex_);
  data_ = data;
  data_files_ = files.files;
  data_worker_ = files.reader;
}

void TrainProgress::SetHomes(std::vector<uint32_t> homes) {
  MutexLock lock(mutex_);
  homes_ = std::move(homes);
}

void TrainProgress::ReportLocked(const Cut& cut) {
  std::set<ClosureId> not_durable;
  for (const Cut::Covered& covered : cut.covered) {
    not_durable.insert(covered.id);
    // A closure has no sums if nobody holds its result or the result is not ready.
    if (covered.id < first_ || covered.result == nullptr || !covered.result->IsReady()) continue;
    EpochMeter::Sums& reported = reported_[covered.id] = {};
    for (const auto& step : EpochMeter::StepsOf(covered.result->result(), covered.steps)) {
      reported.Add(step);
    }
  }
  // A closure that this cut covers without naming it is durable: no restore takes it back.
  for (auto one = reported_.begin(); one != reported_.end();) {
    const bool is_durable = cut.Covers(one->first) && not_durable.count(one->first) == 0;
    if (is_durable) sums_before_.Add(one->second);
    one = is_durable ? reported_.erase(one) : std::next(one);
  }
  settled_ = cut.next;
  if (!cut.open.empty()) settled_ = std::min(settled_, cut.open.front());
  if (!cut.covered.empty()) settled_ = std::min(settled_, cut.covered.front().id);
}

ClosureId TrainProgress::settled() const {
  MutexLock lock(mutex_);
  return settled_;
}

size_t TrainProgress::num_reported() const {
  MutexLock lock(mutex_);
  return reported_.size();
}

std::string TrainProgress::Save(const Cut& cut) {
  MutexLock lock(mutex_);
  proto::TrainState train;
  train.set_settings(Crc32c(job_.settings.text));
  train.set_settings_text(job_.settings.text);
  train.set_global_step(progress_.global_step);
  train.set_epochs_done(progress_.epochs_done);
  train.set_steps_before(before_.global_step);
  train.set_epochs_before(before_.epochs_done);
  train.set_checkpoint(checkpoint_.prefix);
  train.set_checkpoint_step(checkpoint_.step);
  train.set_planned(planned_.prefix);
  train.set_planned_step(planned_.step);
  train.set_data_pass(progress_.data.pass);
  train.set_data_examples(progress_.data.examples);
  train.set_examples(totals_.examples);
  train.set_seconds(totals_.seconds);
  train.mutable_homes()->Add(homes_.begin(), homes_.end());
  for (const std::string& device : devices_) train.add_devices(device);
  train.set_data_length(data_.length);
  train.set_data_content(data_.content);
  *train.mutable_data_files() = data_files_;
  train.set_data_worker(data_worker_);
  train.set_epoch_trained(is_trained_);
  if (results_.trained) Append(results_.trained->values, train.mutable_trained());
  if (results_.validated) Append(results_.validated->values, train.mutable_validated());
  train.set_first_id(first_.value);
  // Between two passes, a cut covers no closure of any pass, so nothing more is saved.
  if (first_.value == 0) return train.SerializeAsString();
  if (pass_ == proto::TrainState::TRAINING) ReportLocked(cut);
  train.set_pass(pass_);
  train.set_pass_length(pass_data_.length);
  train.set_pass_content(pass_data_.content);
  EpochMeter::Sums sums = sums_before_;
  for (const auto& [id, reported] : reported_) {
    // If a restore has undone a closure, the closure's sums count only when a later cut covers the
    // closure again.
    if (cut.Covers(id)) sums.Add(reported);
  }
  train.set_steps(sums.steps);
  Append(sums.values, train.mutable_sums());
  train.mutable_evaluated()->Add(evaluated_.begin(), evaluated_.end());
  return train.SerializeAsString();
}

}  // namespace cohort
