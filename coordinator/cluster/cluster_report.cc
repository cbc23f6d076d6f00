// The texts in which a cluster describes its tasks for people.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cluster/cluster.h"

namespace cohort {

std::string Cluster::Report() const {
  MutexLock lock(mutex_);
  std::string report;
  for (const auto& [task, member] : roster_.members()) {
    absl::StrAppend(&report, report.empty() ? "" : "; ", DescribeLocked(task));
  }
  return report;
}

std::string Cluster::ReportMissing() const {
  std::vector<std::string> missing;
  {
    MutexLock lock(mutex_);
    for (const auto& [task, member] : roster_.members()) {
      if (!AnswersLocked(task)) missing.push_back(DescribeLocked(task));
    }
  }
  return missing.empty() ? Report() : absl::StrJoin(missing, "; ");
}

bool Cluster::AnswersLocked(TaskId task) const {
  const auto found = connections_.find(task);
  if (found != connections_.end()) return found->second->IsServing();
  // Before the first claim is granted there are no connections, only the answers to the claim.
  return claim_ == nullptr || claim_->LastError(task).ok();
}

std::vector<Cluster::Silent> Cluster::silent() const {
  MutexLock lock(mutex_);
  std::vector<Silent> silent;
  const auto ask = [&silent](TaskId task, const std::shared_ptr<TaskConnection>& connection) {
    const absl::Duration since =
        connection == nullptr ? absl::ZeroDuration() : connection->silence();
    if (since > absl::ZeroDuration()) silent.push_back({task, since});
  };
  for (const auto& [task, connection] : connections_) ask(task, connection);
  // A worker that is being removed may still hold up the calls that wait for it.
  for (const auto& [task, leaving] : leaving_) ask(task, leaving.connection);
  return silent;
}

std::vector<std::string> Cluster::ReportApart() const {
  const std::set<TaskPair> broken = reach_->broken();
  if (broken.empty()) return {};
  std::map<TaskId, size_t> workers_of;  // number of workers that do not reach each server
  size_t workers = 0;
  {
    MutexLock lock(mutex_);
    for (const auto& [task, member] : roster_.members()) {
      if (task.role == Role::kWorker) ++workers;
    }
  }
  const auto server = [](const TaskPair& pair) {
    return pair.first.role == Role::kPs ? pair.first : pair.second;
  };
  const auto is_with_server = [](const TaskPair& pair) {
    return (pair.first.role == Role::kPs) != (pair.second.role == Role::kPs);
  };
  for (const TaskPair& pair : broken) {
    if (is_with_server(pair)) ++workers_of[server(pair)];
  }
  std::vector<std::string> report;
  for (const auto& [ps, count] : workers_of) {
    // One line replaces a line per worker if no worker reaches a server.
    if (count == workers) report.push_back(absl::StrCat("no worker reaches ", ps.ToString()));
  }
  for (const TaskPair& pair : broken) {
    if (is_with_server(pair) && workers_of[server(pair)] == workers) continue;
    report.push_back(absl::StrCat(pair.first.ToString(), " and ", pair.second.ToString(),
                                  " do not reach each other"));
  }
  return report;
}

std::string Cluster::DescribeLocked(TaskId task) const {
  const auto found = connections_.find(task);
  if (found != connections_.end()) return found->second->Describe();
  const absl::Status error = claim_ == nullptr ? absl::OkStatus() : claim_->LastError(task);
  if (error.ok()) return absl::StrCat(task.ToString(), " waits for the others");
  return absl::StrCat(task.ToString(), " does not answer: ", error.message());
}

}  // namespace cohort
