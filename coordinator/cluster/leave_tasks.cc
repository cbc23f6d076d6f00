#include "coordinator/cluster/leave_tasks.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/limited_group.h"

namespace cohort {

namespace {

using Done = absl::AnyInvocable<void(absl::Status)>;

// Calls `ask` for one home after another, until a home answers OK. Returns how many homes were
// asked. Errors: an error of class STALE if a home answers that another coordinator has taken over.
absl::StatusOr<size_t> AskHomes(Waiter& waiter, const Cluster& cluster,
                                absl::Span<const TaskLink> homes,
                                absl::FunctionRef<void(const TaskLink&, Done)> ask) {
  RETURN_IF_ERROR(cluster.superseded());
  size_t asked = 0;
  while (asked < homes.size()) {
    const TaskLink& home = homes[asked++];
    const absl::Status answer =
        Await<bool>(waiter, absl::InfiniteDuration(), "a home", [&](auto done) {
          ask(home, StatusTo(std::move(done)));
        }).status();
    // STALE may have two causes. A home whose process was restarted knows no coordinator. If the
    // process that this coordinator attached answers STALE, another coordinator has taken over.
    const uint64_t answered_by = DetailOf(answer).origin().incarnation();
    const bool same = answered_by == 0 || answered_by == home.task.incarnation();
    if (ClassOf(answer) == proto::STALE && same) return TakenOver(answer);
    if (answer.ok()) break;
  }
  return asked;
}

// Returns links to all serving tasks, homes first. Sets `num_homes` to the number of homes.
std::vector<TaskLink> LinksOf(const Cluster& cluster, size_t* num_homes) {
  std::vector<TaskLink> links;
  std::vector<TaskLink> others;
  for (TaskLink& link : cluster.serving()) {
    const bool home = link.task.role() == RoleName(cluster.homes());
    // Homes come first, because the epoch claim of another coordinator attaches homes first.
    (home ? links : others).push_back(std::move(link));
  }
  *num_homes = links.size();
  links.insert(links.end(), others.begin(), others.end());
  return links;
}

// Asks one home after another whether this coordinator holds it. Returns whether one has said so.
// Errors: those of AskHomes.
absl::StatusOr<bool> AskWhetherHeldByHomes(Waiter& waiter, const Cluster& cluster) {
  size_t num_homes = 0;
  const std::vector<TaskLink> links = LinksOf(cluster, &num_homes);
  // Shared with the last answer, which may run on another thread.
  const auto confirmed = std::make_shared<std::atomic<bool>>(false);
  const auto ask = [&](const TaskLink& link, Done done) {
    AskWhetherHeld(link.control, cluster.epoch(),
                   [confirmed, done = std::move(done)](absl::Status answer) mutable {
                     if (answer.ok()) *confirmed = true;
                     done(std::move(answer));
                   });
  };
  RETURN_IF_ERROR(AskHomes(waiter, cluster, absl::MakeSpan(links).first(num_homes), ask).status());
  return confirmed->load();
}

}  // namespace

absl::Status LeaveTasks(Waiter& waiter, Cluster& cluster, Farewell farewell,
                        absl::Duration call_timeout) {
  size_t num_homes = 0;
  const std::vector<TaskLink> links = LinksOf(cluster, &num_homes);
  const uint64_t epoch = cluster.epoch();
  cluster.Stop();  // before the farewell: tasks that end now must not be reported as lost
  const auto tell = [&](const TaskLink& link, Done done) {
    SayFarewell(link.control, epoch, farewell, call_timeout, std::move(done));
  };
  ASSIGN_OR_RETURN(const size_t homes_asked,
                   AskHomes(waiter, cluster, absl::MakeSpan(links).first(num_homes), tell));
  // A home has obeyed the farewell, and grants no epoch any more. So no coordinator can take over,
  // and all other tasks are told in parallel.
  const size_t rest = links.size() - homes_asked;
  Await<std::vector<bool>>(waiter, absl::InfiniteDuration(), "the tasks", [&](auto done) {
    LimitedGroup<bool>::Run(
        {rest, rest},
        [links, homes_asked, epoch, farewell, call_timeout](size_t i, auto ended) {
          SayFarewell(links[homes_asked + i].control, epoch, farewell, call_timeout,
                      [ended = std::move(ended)](const absl::Status&) mutable { ended(true); });
        },
        std::move(done));
  }).IgnoreError();
  return absl::OkStatus();
}

absl::Status CheckHeld(Waiter& waiter, const Cluster& cluster) {
  return AskWhetherHeldByHomes(waiter, cluster).status();
}

absl::Status ConfirmHeld(Waiter& waiter, const Cluster& cluster) {
  ASSIGN_OR_RETURN(const bool confirmed, AskWhetherHeldByHomes(waiter, cluster));
  if (confirmed) return absl::OkStatus();
  return absl::UnavailableError("no home says whether this coordinator still holds the tasks");
}

}  // namespace cohort
