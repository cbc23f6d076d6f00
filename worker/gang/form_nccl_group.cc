#include "worker/gang/form_nccl_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "worker/collective/lanes/wire_lanes.h"

namespace cohort {

namespace {

// A group that joins. Thread-safe.
class FormingNccl : public std::enable_shared_from_this<FormingNccl> {
 public:
  FormingNccl(const GroupResources& resources, FormNcclGroupOptions options,
              absl::AnyInvocable<void(FormedGroup)> formed)
      : resources_(resources), options_(std::move(options)), formed_(std::move(formed)) {}

  void Start() {
    NcclOptions nccl;
    nccl.group = options_.group;
    nccl.device = options_.device;
    auto lanes = MakeWireLanes(resources_.transport,
                               {options_.group.name, options_.group.rank, options_.addresses});
    auto control = std::make_unique<LaneCommunicator>(
        resources_.clock, resources_.executor, resources_.table, std::move(lanes), options_.group);
    // Kept first, so that of the two the newer, which shows what NCCL does, comes last.
    resources_.table->Keep(control->recorder(), resources_.clock);
    MutexLock lock(mutex_);
    // Another thread runs this, perhaps before the assignment.
    communicator_ = std::make_unique<NcclCommunicator>(
        resources_.clock, resources_.executor, options_.table, std::move(control), std::move(nccl),
        [self = shared_from_this()](const absl::Status& joined) { self->Joined(joined); });
  }

 private:
  void Joined(const absl::Status& status) {
    std::unique_ptr<NcclCommunicator> communicator;
    {
      MutexLock lock(mutex_);
      communicator = std::move(communicator_);
    }
    const auto recorder = communicator->recorder();
    resources_.table->Keep(recorder, resources_.clock);
    const std::string how = status.ok() ? absl::StrCat("NCCL, gpu:", options_.device)
                                        : absl::StrCat("NCCL, not usable: ", status.message());
    formed_({std::move(communicator), how, recorder});
  }

  const GroupResources resources_;
  const FormNcclGroupOptions options_;
  absl::AnyInvocable<void(FormedGroup)> formed_;  // belongs to the one task that ends this
  Mutex mutex_;
  std::unique_ptr<NcclCommunicator> communicator_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void FormNcclGroup(const GroupResources& resources, FormNcclGroupOptions options,
                   absl::AnyInvocable<void(FormedGroup)> formed) {
  std::make_shared<FormingNccl>(resources, std::move(options), std::move(formed))->Start();
}

}  // namespace cohort
