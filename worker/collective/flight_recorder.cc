#include "worker/collective/flight_recorder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/temporary_file.h"
#include "common/wire/message_json.h"

namespace cohort {

namespace {

absl::string_view StateName(FlightRecord::State state) {
  switch (state) {
    case FlightRecord::State::kNone:
      return "none";
    case FlightRecord::State::kUnderWay:
      return "under-way";
    case FlightRecord::State::kDone:
      return "done";
    case FlightRecord::State::kFailed:
      return "failed";
  }
  return "";
}

// Returns the time from `start` to `when` in microseconds, or "-" if `when` is InfinitePast, which
// stands for an event that has not happened.
std::string After(absl::Time start, absl::Time when) {
  if (when == absl::InfinitePast()) return "-";
  return absl::StrCat(absl::ToInt64Microseconds(when - start), "us");
}

// Returns the words for the algorithm of a recorded operation: `owner.way` if it was kAuto.
absl::string_view Algorithm(const FlightRecord& record, const FlightRecorder::Owner& owner) {
  if (record.algorithm == CollectiveAlgorithm::kAuto) return owner.way;
  return AlgorithmName(record.algorithm);
}

// Returns the record of one operation as a line of text, without a line end.
std::string Line(const FlightRecord& record, const FlightRecorder::Owner& owner) {
  return absl::StrCat(
      record.sequence, " ", OpName(record.op), " '", record.name, "' ", record.bytes, " ",
      DTypeName(record.dtype), " ", Algorithm(record, owner), " ", StateName(record.state), " ",
      absl::FormatTime(record.started, absl::UTCTimeZone()), " ",
      After(record.started, record.last_heard), " ", After(record.started, record.ended), " [",
      absl::StrJoin(record.waits_for, ","), "]");
}

proto::FlightOperation::State StateOf(FlightRecord::State state) {
  switch (state) {
    case FlightRecord::State::kNone:
      return proto::FlightOperation::NONE;
    case FlightRecord::State::kUnderWay:
      return proto::FlightOperation::UNDER_WAY;
    case FlightRecord::State::kDone:
      return proto::FlightOperation::DONE;
    case FlightRecord::State::kFailed:
      return proto::FlightOperation::FAILED;
  }
  return proto::FlightOperation::NONE;
}

// Fills in `shown` from the record of one operation. The time of an operation that is under way is
// measured up to `now`.
void FillOperation(const FlightRecord& record, const FlightRecorder::Owner& owner, absl::Time now,
                   proto::FlightOperation& shown) {
  const absl::string_view dtype =
      record.op == CollectiveOp::kBarrier ? "" : DTypeName(record.dtype);
  shown.set_sequence(record.sequence);
  shown.set_call(absl::StrCat(OpName(record.op), dtype.empty() ? "" : " ", dtype,
                              record.name.empty() ? "" : absl::StrCat(" '", record.name, "'")));
  shown.set_algorithm(std::string(Algorithm(record, owner)));
  shown.set_bytes(record.bytes);
  shown.set_state(StateOf(record.state));
  shown.set_started_us(absl::ToUnixMicros(record.started));
  const bool under_way = record.state == FlightRecord::State::kUnderWay;
  shown.set_took_us(absl::ToInt64Microseconds((under_way ? now : record.ended) - record.started));
  for (const int rank : record.waits_for) shown.add_waits_for(static_cast<uint32_t>(rank));
}

constexpr char kEnding[] = ".flight.json";

// Removes the oldest flight files of one task in `directory`, whose names begin with `beginning`,
// down to kFlightFilesMax. The names sort by time. A file that cannot be removed stays.
void RemoveOldest(FileSystem& files, const std::string& directory, absl::string_view beginning) {
  const auto names = files.List(directory);
  if (!names.ok()) return;
  std::vector<std::string> own;
  for (const std::string& name : *names) {
    // A name with text after kEnding is that of a temporary file, left by a write that did not
    // finish; it counts as a flight file.
    const bool written = absl::StrContains(name, kEnding);
    if (written && absl::StartsWith(name, beginning)) own.push_back(name);
  }
  // List() returns sorted names, so the first files in `own` are the oldest.
  for (size_t i = 0; i + kFlightFilesMax < own.size(); ++i) {
    files.Remove(JoinPath(directory, own[i])).IgnoreError();
  }
}

}  // namespace

std::string NameOf(const FlightRecord& record) {
  const std::string name = record.name.empty() ? "" : absl::StrCat(" '", record.name, "'");
  return absl::StrCat("call ", record.sequence, ", ", OpName(record.op), name);
}

FlightRecord& FlightRecorder::SlotOf(uint64_t sequence) {
  return records_[sequence % records_.size()];
}

void FlightRecorder::Started(Begin begin, absl::Time now) {
  const CollectiveCall& call = *begin.call;
  FlightRecord record;
  record.sequence = begin.sequence;
  record.op = call.op;
  record.dtype = call.dtype;
  record.algorithm = begin.algorithm;
  record.state = FlightRecord::State::kUnderWay;
  record.name = call.name;
  record.bytes = std::max(call.input.size(), call.output.size());
  record.started = now;
  record.last_heard = absl::InfinitePast();
  record.ended = absl::InfinitePast();
  record.waits_for = std::move(begin.waits_for);
  MutexLock lock(mutex_);
  // The ring buffer is allocated by the first operation, so a group without calls takes no memory.
  if (records_.empty()) records_.resize(kFlightRecordsMax);
  calls_started_ = std::max(calls_started_, begin.sequence + 1);
  SlotOf(begin.sequence) = std::move(record);
}

void FlightRecorder::Heard(uint64_t sequence, int rank, absl::Time now) {
  MutexLock lock(mutex_);
  if (records_.empty()) return;
  FlightRecord& record = SlotOf(sequence);
  // If the sequence differs, a later operation has overwritten this operation's record.
  if (record.sequence != sequence) return;
  const auto found = std::find(record.waits_for.begin(), record.waits_for.end(), rank);
  if (found == record.waits_for.end()) return;
  record.waits_for.erase(found);
  record.last_heard = now;
}

void FlightRecorder::Ended(uint64_t sequence, const absl::Status& status, absl::Time now) {
  MutexLock lock(mutex_);
  if (records_.empty()) return;
  FlightRecord& record = SlotOf(sequence);
  // If the sequence differs, a later operation has overwritten this operation's record.
  if (record.sequence != sequence) return;
  record.state = status.ok() ? FlightRecord::State::kDone : FlightRecord::State::kFailed;
  record.ended = now;
  ended_with_.Update(status);
  // Operations may end in any order; last_done_ is the successful one with the highest sequence.
  const bool newer =
      last_done_.state == FlightRecord::State::kNone || last_done_.sequence < record.sequence;
  if (status.ok() && newer) last_done_ = record;
}

std::vector<FlightRecord> FlightRecorder::Records() const {
  MutexLock lock(mutex_);
  std::vector<FlightRecord> records;
  for (const FlightRecord& record : records_) {
    if (record.state != FlightRecord::State::kNone) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const FlightRecord& a, const FlightRecord& b) { return a.sequence < b.sequence; });
  return records;
}

std::string FlightRecorder::Newest(size_t calls_max) const {
  const std::vector<FlightRecord> records = Records();
  std::vector<std::string> lines;
  for (size_t i = records.size() - std::min(records.size(), calls_max); i < records.size(); ++i) {
    lines.push_back(Line(records[i], owner_));
  }
  return absl::StrJoin(lines, "; ");
}

proto::GroupFlight FlightRecorder::ToProto(size_t calls_max, absl::Time now) const {
  const std::vector<FlightRecord> records = Records();
  proto::GroupFlight flight;
  flight.set_group(owner_.group.name);
  flight.set_generation(owner_.group.generation);
  flight.set_rank(static_cast<uint32_t>(owner_.rank));
  flight.set_size(static_cast<uint32_t>(owner_.size));
  for (const proto::TaskRef& task : owner_.tasks) *flight.add_tasks() = task;
  // LastDone() takes the lock itself, so it is called outside the lock.
  flight.set_last_done(LastDone());
  {
    MutexLock lock(mutex_);
    flight.set_calls_started(calls_started_);
    if (!ended_with_.ok()) flight.set_ended_with(std::string(ended_with_.message()));
  }
  for (size_t i = records.size() - std::min(records.size(), calls_max); i < records.size(); ++i) {
    FillOperation(records[i], owner_, now, *flight.add_operations());
  }
  return flight;
}

std::string FlightRecorder::LastDone() const {
  MutexLock lock(mutex_);
  return last_done_.state == FlightRecord::State::kNone ? "no call" : NameOf(last_done_);
}

absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now) {
  ASSIGN_OR_RETURN(const std::string text, MessageToJson(flight));
  RETURN_IF_ERROR(files.MakeDirectories(directory));
  const std::string beginning = absl::StrCat("cohort-", task.role(), "-", task.index(), "-");
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%E6SZ", now, absl::UTCTimeZone());
  const std::string path = JoinPath(directory, absl::StrCat(beginning, time, kEnding));
  // The file is written atomically, so that a reader never sees half a record.
  RETURN_IF_ERROR(WriteFileAtomically(files, path, absl::StrCat(text, "\n")));
  RemoveOldest(files, directory, beginning);
  return path;
}

}  // namespace cohort
