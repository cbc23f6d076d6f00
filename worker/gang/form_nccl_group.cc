#include "worker/gang/form_nccl_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "worker/collective/lanes/wire_lanes.h"

namespace cohort {

namespace {

// A group whose ranks are joining NCCL. Thread-safe.
class FormingNccl : public std::enable_shared_from_this<FormingNccl> {
 public:
  FormingNccl(const GroupResources& resources, FormNcclGroupOptions options,
              absl::AnyInvocable<void(FormedGroup)> formed)
      : resources_(resources), options_(std::move(options)), formed_(std::move(formed)) {}

  void Start() {
    NcclOptions nccl;
    nccl.group = options_.group;
    nccl.device = options_.device;
    // NCCL's ranks join each other and agree on errors through a control group over lanes.
    auto lanes = MakeWireLanes(resources_.transport,
                               {options_.group.name, options_.group.rank, options_.addresses});
    auto control = std::make_unique<LaneCommunicator>(
        resources_.clock, resources_.executor, resources_.table, std::move(lanes), options_.group);
    // The recorder of the control lanes is kept first, so that NCCL's recorder is the newer of the
    // two and is shown last.
    resources_.table->Keep(control->recorder(), resources_.clock);
    MutexLock lock(mutex_);
    // Another thread runs the callback, perhaps before communicator_ is assigned. Joined() takes
    // the lock, so it waits for the assignment.
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
    // A communicator that failed to join is handed over: its calls report why NCCL is not usable.
    const auto recorder = communicator->recorder();
    resources_.table->Keep(recorder, resources_.clock);
    const std::string how = status.ok() ? absl::StrCat("NCCL, gpu:", options_.device)
                                        : absl::StrCat("NCCL, not usable: ", status.message());
    formed_({std::move(communicator), how, recorder});
  }

  const GroupResources resources_;
  const FormNcclGroupOptions options_;
  absl::AnyInvocable<void(FormedGroup)> formed_;  // called by the one task that ends the forming
  Mutex mutex_;
  std::unique_ptr<NcclCommunicator> communicator_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void FormNcclGroup(const GroupResources& resources, FormNcclGroupOptions options,
                   absl::AnyInvocable<void(FormedGroup)> formed) {
  std::make_shared<FormingNccl>(resources, std::move(options), std::move(formed))->Start();
}

}  // namespace cohort
