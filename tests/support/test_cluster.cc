#include "tests/support/test_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "ps_server/grant_file.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "worker/variables_home/variables_home.h"

namespace cohort {

namespace {

// Few: tables live to the end of the process.
const CudaTable& StandInOf(int32_t gpus) {
  constexpr uint64_t kMemory = uint64_t{1} << 30;
  static Mutex mutex;
  static std::map<int32_t, const CudaTable*> tables;
  MutexLock lock(mutex);
  const CudaTable*& table = tables[gpus];
  if (table == nullptr) table = &MakeCudaStandIn(gpus, kMemory);
  return *table;
}

}  // namespace

bool SimWaiter::Wait(const Event& event, absl::Duration timeout) {
  // A simulation that makes no progress for a simulated day is stuck.
  const absl::Duration limit = timeout == absl::InfiniteDuration() ? absl::Hours(24) : timeout;
  return world_.RunUntil([&] { return event.HasHappened(); }, limit);
}

TestCluster::TestCluster(Options options) : options_(std::move(options)) {
  for (const int i : options_.ps) {
    spec_.Add(TaskId{Role::kPs, i}, absl::StrCat(options_.address_prefix, "ps", i, ":2222"));
  }
  for (const int i : options_.workers) {
    spec_.Add(TaskId{Role::kWorker, i}, WorkerAddress(i));
  }
  for (const auto& [task, address] : spec_.tasks()) Start(task);
}

TestCluster::~TestCluster() = default;

std::string TestCluster::WorkerAddress(int index) const {
  const int on_host = options_.workers_on_host;
  return absl::StrCat(options_.address_prefix, "worker", index / on_host, ":",
                      2222 + index % on_host);
}

void TestCluster::Kill(TaskId task) {
  if (options_.kill_host) options_.kill_host(task.ToString());
  ps_.erase(task);
  workers_.erase(task);
}

void TestCluster::StartLeaving(TaskId task, absl::Duration patience) {
  if (task.role == Role::kPs) return ps_.at(task)->StartLeaving(patience);
  workers_.at(task)->StartLeaving(patience);
}

void TestCluster::Start(TaskId task) {
  ++last_incarnation_;
  if (task.role == Role::kPs) return StartPs(task);
  StartWorker(task);
}

std::string TestCluster::AddWorker(int index) {
  const TaskId task{Role::kWorker, index};
  const std::string address = WorkerAddress(index);
  spec_.Add(task, address);
  Start(task);
  return address;
}

void TestCluster::SetGpus(TaskId worker, int32_t gpus) { *gpus_.at(worker) = gpus; }

void TestCluster::StartPs(TaskId task) {
  PsTask::Options options;
  options.task = task;
  options.listen_address = *spec_.Address(task);
  options.incarnation = last_incarnation_;
  options.resident_bytes_max = ps_memory_bytes_;
  const World world = options_.world_of(task.ToString());
  if (!options_.grant_directory.empty()) {
    options.grant_file = JoinPath(options_.grant_directory, task.ToString() + ".grant");
    const absl::StatusOr<EpochGrant> granted = ReadGrant(world.files, options.grant_file);
    if (!granted.ok()) {
      COHORT_CHECK(options_.on_start_failed != nullptr, "a test's grants are readable");
      return options_.on_start_failed(task);
    }
    options.granted = *granted;
  }
  ps_[task] = std::make_unique<PsTask>(world, std::move(options));
  COHORT_CHECK(ps_[task]->Start().ok(), "a test's ps listens");
}

FindCuda TestCluster::StandInFinder(TaskId worker) {
  std::shared_ptr<std::atomic<int32_t>>& gpus = gpus_[worker];
  if (gpus == nullptr) gpus = std::make_shared<std::atomic<int32_t>>(0);
  return [gpus]() -> absl::StatusOr<const CudaTable*> {
    if (*gpus > 0) return &StandInOf(*gpus);
    return absl::FailedPreconditionError("no GPU can be used: this test's worker has none");
  };
}

void TestCluster::StartWorker(TaskId task) {
  WorkerTask::Options options;
  options.task = task;
  options.listen_address = *spec_.Address(task);
  options.incarnation = last_incarnation_;
  options.find_nccl = options_.find_nccl;
  options.call_bytes_max = options_.call_bytes_max;
  options.find_cuda = StandInFinder(task);
  if (options_.find_cuda != nullptr) options.find_cuda = options_.find_cuda;
  const World world = options_.world_of(task.ToString());
  VariablesHomeOptions home;
  if (!options_.grant_directory.empty() && options_.ps.empty()) {
    home.grant_file = JoinPath(options_.grant_directory, task.ToString() + ".grant");
  }
  if (!AddVariablesHome(home, world.files, options).ok()) {
    COHORT_CHECK(options_.on_start_failed != nullptr, "a test's grants are readable");
    return options_.on_start_failed(task);
  }
  workers_[task] = std::make_unique<WorkerTask>(world, std::move(options));
  COHORT_CHECK(workers_[task]->Start().ok(), "a test's worker listens");
}

}  // namespace cohort
