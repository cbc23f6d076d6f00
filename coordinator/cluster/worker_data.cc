#include "coordinator/cluster/worker_data.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/cluster/ask_workers.h"

namespace cohort {

namespace {

using Answer = WorkerAnswer<proto::CreateDatasetResponse>;

// Asks `links` in parallel. If a worker serves but has not answered in time, its status names the
// call. Errors: a refusal that the worker would repeat.
absl::StatusOr<std::vector<Answer>> Ask(Waiter& waiter, Cluster& cluster,
                                        const DataQuestion& question,
                                        const std::vector<TaskLink>& links,
                                        const proto::ExpectedData* expected) {
  proto::CreateDatasetRequest request;
  request.set_epoch(cluster.epoch());
  request.set_dataset_id(question.dataset_id);
  *request.mutable_spec() = question.spec;
  if (expected != nullptr) *request.mutable_expected() = *expected;
  const absl::Duration patience = std::min(question.call_timeout, question.timeout);
  const WorkerQuestion asked = {"/cohort.proto.WorkerService/CreateDataset",
                                "workers to build the data set",
                                TimeFor(patience, request.ByteSizeLong())};
  ASSIGN_OR_RETURN(std::vector<Answer> answers, AskWorkers<proto::CreateDatasetResponse>(
                                                    waiter, cluster, links, asked, request));
  for (Answer& answer : answers) {
    if (!answer.status.ok() && !MayAnswerLater(answer.status)) return answer.status;
    if (!absl::IsDeadlineExceeded(answer.status)) continue;
    answer.status =
        UnansweredQuestion(asked, request, answer.task, asked.call_timeout, answer.status);
  }
  return answers;
}

// Asks one worker and, if that worker does not answer, all others in parallel. Errors: that of one
// of the workers.
absl::StatusOr<proto::ExpectedData> FirstAnswer(Waiter& waiter, Cluster& cluster,
                                                const DataQuestion& question) {
  absl::Status error =
      absl::UnavailableError(absl::StrCat("no worker serves now: ", cluster.Report()));
  std::set<int32_t> asked;
  while (true) {
    std::vector<TaskLink> links = ServingWorkers(cluster);
    links.erase(
        std::remove_if(links.begin(), links.end(),
                       [&](const TaskLink& link) { return asked.count(link.task.index()) > 0; }),
        links.end());
    if (links.empty()) return error;
    // One worker is enough at first: a data set may be costly to build.
    if (asked.empty()) links.erase(links.begin() + 1, links.end());
    for (const TaskLink& link : links) asked.insert(link.task.index());
    ASSIGN_OR_RETURN(const std::vector<Answer> answers,
                     Ask(waiter, cluster, question, links, nullptr));
    for (const Answer& answer : answers) {
      if (!answer.status.ok()) {
        // A silent worker explains more than a broken connection, so its error is kept.
        if (!absl::IsDeadlineExceeded(error)) error = answer.status;
        continue;
      }
      proto::ExpectedData expected;
      *expected.mutable_worker() = answer.task;
      *expected.mutable_element_spec() = answer.response.element_spec();
      expected.set_cardinality(answer.response.cardinality());
      expected.set_content(answer.response.content());
      expected.set_source_elements(answer.response.source_elements());
      return expected;
    }
  }
}

}  // namespace

absl::StatusOr<proto::ExpectedData> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                               const DataQuestion& question) {
  const absl::Time deadline = world.clock.Now() + question.timeout;
  absl::StatusOr<proto::ExpectedData> first;
  RETURN_IF_ERROR(cluster.ended());
  while (true) {
    first = FirstAnswer(waiter, cluster, question);
    if (first.ok()) break;
    if (!MayAnswerLater(first.status()) || world.clock.Now() >= deadline) return first.status();
    // The wait ends when any worker serves: each of them can answer, so no particular one is
    // awaited.
    RETURN_IF_ERROR(PauseForWorkers(world, waiter, cluster));
  }
  std::vector<TaskLink> others = ServingWorkers(cluster);
  others.erase(std::remove_if(others.begin(), others.end(),
                              [&](const TaskLink& link) {
                                return link.task.index() == first->worker().index();
                              }),
               others.end());
  // Each of the other workers compares its data with `first`, and refuses if they differ.
  RETURN_IF_ERROR(Ask(waiter, cluster, question, others, &*first).status());
  return first;
}

}  // namespace cohort
