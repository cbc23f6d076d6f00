#include "coordinator/cluster/ask_statistics.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/cluster/worker_question.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

// The examples of a part. Another number would give other last bits of moments.
constexpr int64_t kPartExamples = 8192;
// The parts that a worker is asked for at a time: one is read while the answer of another travels.
constexpr size_t kPartsOfWorker = 2;

using Answer = WorkerAnswer<proto::GatherStatisticsResponse>;

// Reads the parts of the data in waves, each of which asks all workers that serve.
// Thread-compatible.
class Gathering {
 public:
  Gathering(Waiter& waiter, Cluster& cluster, const StatisticsQuestion& question)
      : waiter_(waiter),
        cluster_(cluster),
        question_(question),
        parts_((question.examples + kPartExamples - 1) / kPartExamples) {
    const auto& transforms = question.spec.transforms();
    sums_.resize(static_cast<size_t>(transforms.rbegin()->adapt().statistics_size()));
  }

  bool IsDone() const { return next_ == parts_; }

  // Asks for the next parts that are not read, and joins those that were read without a gap.
  // Returns the error of a worker that may answer later, or OK. Errors: `fatal` of a worker that
  // refuses.
  struct Wave {
    absl::Status fatal;
    absl::Status missing;  // the error of a part that was not read
  };
  Wave Run() {
    const std::vector<TaskLink> links = ServingWorkers(cluster_);
    if (links.empty()) {
      return {absl::OkStatus(),
              absl::UnavailableError(absl::StrCat("no worker serves now: ", cluster_.Report()))};
    }
    std::vector<int64_t> wanted;
    for (int64_t part = next_; part < parts_ && wanted.size() < kPartsOfWorker * links.size();
         ++part) {
      if (read_.count(part) == 0) wanted.push_back(part);
    }
    absl::StatusOr<std::vector<Answer>> answers = Ask(links, wanted);
    if (!answers.ok()) return {answers.status(), absl::OkStatus()};
    Wave wave;
    for (size_t i = 0; i < wanted.size(); ++i) {
      Answer& answer = (*answers)[i];
      if (answer.status.ok()) {
        read_[wanted[i]] = std::move(answer.response);
      } else if (MayAnswerLater(answer.status)) {
        wave.missing = answer.status;
      } else {
        wave.fatal.Update(answer.status);
      }
    }
    wave.fatal.Update(JoinRead());
    return wave;
  }

  std::vector<ColumnStatistics> TakeSums() { return std::move(sums_); }

 private:
  absl::StatusOr<std::vector<Answer>> Ask(const std::vector<TaskLink>& links,
                                          const std::vector<int64_t>& wanted) {
    const auto ask = [&](size_t i, absl::AnyInvocable<void(absl::StatusOr<Answer>)> done) {
      proto::GatherStatisticsRequest request;
      request.set_epoch(cluster_.epoch());
      request.set_dataset_id(question_.dataset_id);
      *request.mutable_spec() = question_.spec;
      request.set_begin(wanted[i] * kPartExamples);
      request.set_end(std::min(request.begin() + kPartExamples, question_.examples));
      const WorkerQuestion asked = {"/cohort.proto.WorkerService/GatherStatistics",
                                    "workers to read the data to adapt to",
                                    TimeFor(question_.call_timeout, request.ByteSizeLong())};
      AskWorker<proto::GatherStatisticsResponse>(cluster_, links[i % links.size()], asked, request,
                                                 std::move(done));
    };
    return Await<std::vector<Answer>>(
        waiter_, absl::InfiniteDuration(), "workers to read the data to adapt to", [&](auto done) {
          LimitedGroup<Answer>::Run({wanted.size(), wanted.size()}, ask, std::move(done));
        });
  }

  absl::Status JoinRead() {
    for (auto found = read_.find(next_); found != read_.end(); found = read_.find(next_)) {
      const proto::GatherStatisticsResponse& part = found->second;
      if (static_cast<size_t>(part.statistics_size()) != sums_.size()) {
        return absl::InternalError(absl::StrCat("a worker has ", part.statistics_size(),
                                                " statistics, not ", sums_.size()));
      }
      for (size_t i = 0; i < sums_.size(); ++i) {
        const proto::Statistic& asked =
            question_.spec.transforms().rbegin()->adapt().statistics(static_cast<int>(i));
        RETURN_IF_ERROR(Annotate(sums_[i].Join(part.statistics(static_cast<int>(i))),
                                 absl::StrCat("column '", Excerpt(asked.column()), "'")));
      }
      read_.erase(found);
      ++next_;
    }
    return absl::OkStatus();
  }

  Waiter& waiter_;
  Cluster& cluster_;
  const StatisticsQuestion& question_;
  const int64_t parts_;
  int64_t next_ = 0;                                         // the first part that is not joined
  std::map<int64_t, proto::GatherStatisticsResponse> read_;  // parts behind it
  std::vector<ColumnStatistics> sums_;
};

}  // namespace

absl::StatusOr<std::vector<ColumnStatistics>> AskForStatistics(World world, Waiter& waiter,
                                                               Cluster& cluster,
                                                               const StatisticsQuestion& question) {
  Gathering gathering(waiter, cluster, question);
  absl::Time deadline = world.clock.Now() + question.timeout;
  while (!gathering.IsDone()) {
    RETURN_IF_ERROR(cluster.ended());
    const Gathering::Wave wave = gathering.Run();
    RETURN_IF_ERROR(wave.fatal);
    if (wave.missing.ok()) {
      deadline = world.clock.Now() + question.timeout;
      continue;
    }
    if (world.clock.Now() >= deadline) return wave.missing;
    RETURN_IF_ERROR(PauseForWorkers(world, waiter, cluster));
  }
  return gathering.TakeSums();
}

}  // namespace cohort
