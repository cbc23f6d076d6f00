#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "coordinator/members/flight_records.h"

namespace cohort {

namespace {

using proto::FlightOperation;
using proto::GroupFlight;

std::string NameOf(const proto::TaskRef& task) {
  return absl::StrCat(task.role(), ":", task.index());
}

// The flight records of one generation of a group, by rank, and their text. Thread-compatible.
class GroupView {
 public:
  GroupView(const proto::AskFlightRecordsResponse& records, std::string group, uint64_t generation,
            absl::string_view absent)
      : name_(std::move(group)), generation_(generation), absent_(absent) {
    for (const proto::WorkerFlightRecord& worker : records.workers()) {
      workers_[NameOf(worker.task())] = &worker;
      for (const GroupFlight& flight : worker.groups()) {
        if (flight.group() == name_ && flight.generation() == generation_) Add(worker, flight);
      }
    }
  }

  std::string Text() const {
    std::string text = absl::StrCat("group '", name_, "' of generation ", generation_, ", ",
                                    ranks_.size(), " ranks\n");
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      absl::StrAppend(&text, "  ", NameOfRank(rank), ": ", StateOf(rank), "\n");
    }
    absl::StrAppend(&text, Table(), Verdict());
    if (!ended_with_.empty()) absl::StrAppend(&text, "it ended with: ", ended_with_, "\n");
    return text;
  }

 private:
  struct Rank {
    std::string task;                     // name of the rank's task, "worker:1"; empty if not known
    const GroupFlight* flight = nullptr;  // the record of this rank, or null
  };

  void Add(const proto::WorkerFlightRecord& worker, const GroupFlight& flight) {
    if (ranks_.size() < flight.size() && flight.size() <= kRanksShownMax) {
      ranks_.resize(flight.size());
    }
    for (uint32_t rank = 0;
         rank < ranks_.size() && rank < static_cast<uint32_t>(flight.tasks_size()); ++rank) {
      ranks_[rank].task = NameOf(flight.tasks(static_cast<int>(rank)));
    }
    if (ended_with_.empty()) ended_with_ = flight.ended_with();
    if (flight.rank() >= ranks_.size()) return;
    ranks_[flight.rank()] = {NameOf(worker.task()), &flight};
    for (const FlightOperation& operation : flight.operations()) {
      calls_[operation.sequence()][flight.rank()] = &operation;
    }
  }

  std::string NameOfRank(uint32_t rank) const {
    const std::string& task = ranks_[rank].task;
    return absl::StrCat("rank ", rank, task.empty() ? "" : absl::StrCat(", ", task));
  }

  // Returns how many calls a rank has started and finished. If the rank has no record, returns the
  // reason for that.
  std::string StateOf(uint32_t rank) const {
    if (const GroupFlight* const flight = ranks_[rank].flight; flight != nullptr) {
      return absl::StrCat(flight->calls_started(),
                          " calls started; last done: ", flight->last_done());
    }
    const auto worker = workers_.find(ranks_[rank].task);
    if (worker == workers_.end()) return std::string(absent_);
    if (worker->second->error().empty()) return "knows nothing of this group";
    return absl::StrCat("does not answer: ", worker->second->error());
  }

  // Returns a cell of the table: the state of one call at one rank, its time, and the ranks from
  // which this rank has not received data yet.
  std::string Cell(const std::map<uint32_t, const FlightOperation*>& call, uint64_t sequence,
                   uint32_t rank) const {
    const GroupFlight* const flight = ranks_[rank].flight;
    if (flight == nullptr) return "?";
    const auto found = call.find(rank);
    // A rank's record keeps only the newest calls. So a call that the rank has started, but that is
    // not in its record, is too old.
    if (found == call.end()) return sequence >= flight->calls_started() ? "not started" : "-";
    const FlightOperation& operation = *found->second;
    const std::string took = absl::FormatDuration(absl::Microseconds(operation.took_us()));
    if (operation.state() == FlightOperation::DONE) return absl::StrCat("done ", took);
    return absl::StrCat(
        operation.state() == FlightOperation::FAILED ? "failed " : "under way ", took,
        operation.waits_for().empty()
            ? ""
            : absl::StrCat(", not heard of ", absl::StrJoin(operation.waits_for(), ",")));
  }

  // Returns the table of calls, with a line per call and a column per rank.
  std::string Table() const {
    if (calls_.empty()) return "";
    std::vector<std::vector<std::string>> rows = {{"call", "operation", "bytes"}};
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      rows[0].push_back(absl::StrCat("rank ", rank));
    }
    for (const auto& [sequence, call] : calls_) {
      const FlightOperation& any = *call.begin()->second;
      rows.push_back({absl::StrCat(sequence), absl::StrCat(any.call(), " ", any.algorithm()),
                      absl::StrCat(any.bytes())});
      for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        rows.back().push_back(Cell(call, sequence, rank));
      }
    }
    // All cells of a column are padded to the width of the widest one.
    std::vector<size_t> widths(rows[0].size());
    for (const auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        absl::StrAppendFormat(&line, " %-*s", static_cast<int>(widths[i]), row[i]);
      }
      absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
    }
    return text;
  }

  // Returns which ranks wait, and for which others, in the oldest call under way. If no call is
  // under way, returns that for the oldest failed call.
  std::string Verdict() const {
    std::string waits = WhoWaits(FlightOperation::UNDER_WAY, " waits", " wait");
    if (!waits.empty()) return waits;
    const std::string waited = WhoWaits(FlightOperation::FAILED, " waited", " waited");
    return waited.empty() ? "no call is under way\n" : waited;
  }

  // Returns which ranks wait in the oldest call with this state, and for which others. Returns an
  // empty text if there is no such call.
  std::string WhoWaits(FlightOperation::State state, absl::string_view one_waits,
                       absl::string_view several_wait) const {
    for (const auto& [sequence, call] : calls_) {
      std::vector<std::string> waiting;
      for (const auto& [rank, operation] : call) {
        if (operation->state() == state) waiting.push_back(absl::StrCat("rank ", rank));
      }
      if (waiting.empty()) continue;
      const std::vector<std::string> awaited = AwaitedIn(sequence);
      return absl::StrCat(absl::StrJoin(waiting, ", "),
                          waiting.size() == 1 ? one_waits : several_wait, " in call ", sequence,
                          ", ", call.begin()->second->call(), ", ",
                          awaited.empty() ? "which all ranks have started"
                                          : absl::StrCat("for ", absl::StrJoin(awaited, "; for ")),
                          "\n");
    }
    return "";
  }

  // Returns the ranks that have not started call number `sequence`. Includes ranks without a
  // record, which may not have started it either.
  std::vector<std::string> AwaitedIn(uint64_t sequence) const {
    std::vector<std::string> awaited;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const GroupFlight* const flight = ranks_[rank].flight;
      if (flight == nullptr) {
        awaited.push_back(absl::StrCat(NameOfRank(rank), ", perhaps, which ", StateOf(rank)));
      } else if (flight->calls_started() <= sequence) {
        awaited.push_back(absl::StrCat(NameOfRank(rank),
                                       ", which has not started it (last done "
                                       "there: ",
                                       flight->last_done(), ")"));
      }
    }
    return awaited;
  }

  // If a record reports a larger group, the table is not enlarged for it.
  static constexpr uint32_t kRanksShownMax = 1024;

  const std::string name_;
  const uint64_t generation_;
  const absl::string_view absent_;
  std::map<std::string, const proto::WorkerFlightRecord*> workers_;
  std::vector<Rank> ranks_;
  // The recorded calls by sequence number and rank. Sequence numbers count the calls of the group.
  std::map<uint64_t, std::map<uint32_t, const FlightOperation*>> calls_;
  std::string ended_with_;
};

}  // namespace

std::string FlightText(const proto::AskFlightRecordsResponse& records, absl::string_view absent) {
  std::set<std::pair<std::string, uint64_t>> groups;  // name and generation of each group
  std::string text;
  for (const proto::WorkerFlightRecord& worker : records.workers()) {
    for (const GroupFlight& flight : worker.groups()) {
      groups.emplace(flight.group(), flight.generation());
    }
    if (!worker.error().empty()) {
      // A local worker whose process does not listen yet has no address.
      const std::string where =
          worker.address().empty() ? "" : absl::StrCat(" at ", worker.address());
      absl::StrAppend(&text, NameOf(worker.task()), where, " does not answer: ", worker.error(),
                      "\n");
    }
  }
  for (const auto& [name, generation] : groups) {
    absl::StrAppend(&text, GroupView(records, name, generation, absent).Text());
  }
  if (groups.empty()) absl::StrAppend(&text, "no worker has recorded a group\n");
  return text;
}

}  // namespace cohort
