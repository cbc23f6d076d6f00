// What a cluster says to people about its tasks.

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
  for (const auto& [task, leaving] : leaving_) ask(task, leaving.connection);
  return silent;
}

std::string Cluster::DescribeLocked(TaskId task) const {
  const auto found = connections_.find(task);
  if (found != connections_.end()) return found->second->Describe();
  const absl::Status error = claim_ == nullptr ? absl::OkStatus() : claim_->LastError(task);
  if (error.ok()) return absl::StrCat(task.ToString(), " waits for the others");
  return absl::StrCat(task.ToString(), " does not answer: ", error.message());
}

}  // namespace cohort
