// Variables are changed while the homes that have copies of them come and go on another thread.

#include "coordinator/homes/ps_control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/error_detail.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

// Nothing is ever answered.
class NoChannel final : public Channel {
 public:
  std::unique_ptr<Call> Start(absl::string_view, Message, absl::Duration, Reply) override {
    return nullptr;
  }
};

class NoTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string&,
                                                 std::vector<Service>) override {
    return absl::UnimplementedError("nobody listens");
  }
  std::shared_ptr<Channel> Connect(const std::string&, Lane) override {
    return std::make_shared<NoChannel>();
  }
};

// Whom a request is for, and how many requests there are, has to be of one moment.
TEST(PsControl, HomesMayComeAndGoWhileAVariableIsChanged) {
  SimWorld sim(1);
  MemoryFileSystem files;
  NoTransport transport;
  const World world{sim, sim, files, transport};
  constexpr int kHomes = 6;
  Cluster::Options options;
  for (int worker = 0; worker < kHomes; ++worker) {
    options.spec.Add({Role::kWorker, worker}, absl::StrCat("w", worker, ":1"));
  }
  options.homes = Role::kWorker;
  options.mirrored = true;
  options.on_worker_removed = [](int, absl::AnyInvocable<void()> drained) { drained(); };
  const auto cluster = Cluster::Create(world, std::move(options));
  BlockingWaiter waiter;  // nothing is waited for
  PsControl ps(world, cluster, ShardTransfer::Create(world, {}, cluster), waiter, {});
  proto::VariableLayout variable;
  variable.set_name("v");
  variable.set_dtype(static_cast<int32_t>(DType::kFloat32));
  variable.add_dims(2);
  variable.set_mirrored(true);
  proto::SliceHome& slice = *variable.add_slices();
  slice.set_slice_id(1);
  slice.set_row_count(2);

  std::atomic<bool> over = false;
  std::thread changes([&] {
    while (!over) {
      for (int worker = 1; worker < kHomes; ++worker) {
        cluster->RemoveWorker({Role::kWorker, worker}, Farewell::kKeep, [](const absl::Status&) {});
      }
      for (int worker = 1; worker < kHomes; ++worker) {
        cluster->AddWorker({Role::kWorker, worker}, absl::StrCat("w", worker, ":1")).IgnoreError();
      }
    }
  });
  VariableChange change;
  change.operand = Tensor::FromVector<float>({1, 2}, Shape{2});
  for (int i = 0; i < 2000; ++i) {
    // Nobody serves, which is found when the requests have been made.
    EXPECT_EQ(ClassOf(ps.Change(variable, change, 1)), proto::PS_LOST);
  }
  over = true;
  changes.join();
}

}  // namespace
}  // namespace cohort
