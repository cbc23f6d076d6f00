#include "worker/gang/form_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "worker/collective/lanes/wire_lanes.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {

namespace {

// Gives the group to the callback, once. The FrameRouter keeps the flight record of the group's
// calls, even if the group fails at once. The callback is let go, because what it refers to may own
// the communicator, whose thread refers to the object that has the callback.
void Give(FormedGroup group, const GroupResources& resources,
          absl::AnyInvocable<void(FormedGroup)>& formed) {
  resources.router->Keep(group.recorder, resources.clock);
  std::exchange(formed, nullptr)(std::move(group));
}

// A group while it is formed: tries to share memory, else uses frames. Thread-safe.
class Forming final : public FormingGroup, public std::enable_shared_from_this<Forming> {
 public:
  Forming(const GroupResources& resources, FormGroupOptions options,
          absl::AnyInvocable<void(FormedGroup)> formed)
      : resources_(resources), options_(std::move(options)), formed_(std::move(formed)) {}

  void Start() {
    if (options_.shm_socket.empty()) {
      return resources_.executor.Run([self = shared_from_this()] {
        if (self->TakeTurn()) self->UseFrames("sharing memory was not asked for");
      });
    }
    ShmOptions shm;
    shm.rank = options_.group.rank;
    shm.size = options_.group.size;
    shm.name = options_.group.name;
    shm.socket = options_.shm_socket;
    shm.join_timeout = options_.shm_timeout;
    shm.members = options_.group.tasks;
    shm.stall_after = options_.group.stall_after;
    MutexLock lock(mutex_);
    // The callback runs on the communicator's own thread, perhaps before `shm_` is assigned. It
    // posts Joined() to the executor, because Joined() may destroy the communicator, which must not
    // happen on that thread. Joined() takes the lock and so sees the assigned `shm_`.
    shm_ = std::make_unique<ShmCommunicator>(
        std::move(shm), [self = shared_from_this()](absl::Status joined) {
          self->resources_.executor.Run([self, joined = std::move(joined)] {
            if (self->TakeTurn()) self->Joined(joined);
          });
        });
  }

  void GiveUp(const absl::Status& why) override {
    if (TakeTurn()) return Joined(why);
    MutexLock lock(mutex_);
    while (makes_) made_.Wait(mutex_);
  }

 private:
  // Returns true to the first caller, which then makes the communicator.
  bool TakeTurn() {
    MutexLock lock(mutex_);
    if (std::exchange(taken_, true)) return false;
    makes_ = true;
    return true;
  }

  void Joined(const absl::Status& status) {
    // The lock makes Joined() wait until Start() has assigned `shm_`.
    std::unique_ptr<ShmCommunicator> shm;
    {
      MutexLock lock(mutex_);
      shm = std::move(shm_);
    }
    if (status.ok()) {
      const auto recorder = shm->recorder();
      return Formed({std::move(shm), "shared memory", recorder});
    }
    // Ranks that came to share memory while this one gave up learn the cause there; all others
    // learn it by frames.
    if (shm != nullptr) shm->Abort(status);
    // The communicator that failed to share memory is destroyed before frames replace it.
    shm.reset();
    UseFrames(std::string(status.message()));
  }

  void UseFrames(const std::string& why) {
    Log(LogLevel::kInfo, "collective_group_uses_frames",
        {{"group", options_.group.name.name}, {"rank", options_.group.rank}, {"why", why}});
    auto links = MakeWireLanes(resources_.transport,
                               {options_.group.name, options_.group.rank, options_.addresses});
    auto communicator = std::make_unique<LaneCommunicator>(
        resources_.clock, resources_.executor, resources_.router, std::move(links), options_.group);
    const auto recorder = communicator->recorder();
    Formed({std::move(communicator), absl::StrCat("frames: ", why), recorder});
  }

  void Formed(FormedGroup formed) {
    {
      MutexLock lock(mutex_);
      makes_ = false;
      made_.NotifyAll();
    }
    Give(std::move(formed), resources_, formed_);
  }

  const GroupResources resources_;
  const FormGroupOptions options_;
  // Called once, when the group's communicator is made.
  absl::AnyInvocable<void(FormedGroup)> formed_;
  Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;  // true once a caller makes the communicator
  bool makes_ ABSL_GUARDED_BY(mutex_) = false;  // true while that caller uses the transport
  CondVar made_;
  std::unique_ptr<ShmCommunicator> shm_ ABSL_GUARDED_BY(mutex_);
};

// A group while its ranks join NCCL. Thread-safe.
class FormingNccl final : public FormingGroup, public std::enable_shared_from_this<FormingNccl> {
 public:
  FormingNccl(const GroupResources& resources, FormNcclGroupOptions options,
              absl::AnyInvocable<void(FormedGroup)> formed)
      : resources_(resources), options_(std::move(options)), formed_(std::move(formed)) {}

  void Start() {
    NcclOptions nccl;
    nccl.group = options_.group;
    nccl.device = options_.device;
    // The ranks join NCCL, and agree on errors, by calls of a second group that sends frames.
    auto links = MakeWireLanes(resources_.transport,
                               {options_.group.name, options_.group.rank, options_.addresses});
    auto control = std::make_unique<LaneCommunicator>(
        resources_.clock, resources_.executor, resources_.router, std::move(links), options_.group);
    // The flight record of this second group is kept first, so that NCCL's own is the newer of the
    // two.
    resources_.router->Keep(control->recorder(), resources_.clock);
    MutexLock lock(mutex_);
    // Another thread runs the callback, perhaps before communicator_ is assigned. Joined() takes
    // the lock, so it waits for the assignment.
    communicator_ = std::make_unique<NcclCommunicator>(
        resources_.clock, resources_.executor, options_.table, std::move(control), std::move(nccl),
        [self = shared_from_this()](const absl::Status& joined) { self->Joined(joined); });
  }

  // The ranks may wait for each other for a minute: the control group's end ends the wait.
  void GiveUp(const absl::Status& why) override { Joined(why); }

 private:
  void Joined(const absl::Status& status) {
    std::unique_ptr<NcclCommunicator> communicator;
    {
      MutexLock lock(mutex_);
      communicator = std::move(communicator_);
    }
    if (communicator == nullptr) return;  // the group was given up, or has formed
    if (!status.ok()) communicator->Abort(status);
    // A communicator that failed to join is passed on as well: its calls report why NCCL cannot be
    // used.
    const auto recorder = communicator->recorder();
    const std::string how = status.ok() ? absl::StrCat("NCCL, gpu:", options_.device)
                                        : absl::StrCat("NCCL, not usable: ", status.message());
    Give({std::move(communicator), how, recorder}, resources_, formed_);
  }

  const GroupResources resources_;
  const FormNcclGroupOptions options_;
  // Called once, when the ranks have joined NCCL or have failed to.
  absl::AnyInvocable<void(FormedGroup)> formed_;
  Mutex mutex_;
  std::unique_ptr<NcclCommunicator> communicator_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<FormingGroup> FormGroup(const GroupResources& resources, FormGroupOptions options,
                                        absl::AnyInvocable<void(FormedGroup)> formed) {
  auto group = std::make_shared<Forming>(resources, std::move(options), std::move(formed));
  group->Start();
  return group;
}

std::shared_ptr<FormingGroup> FormNcclGroup(const GroupResources& resources,
                                            FormNcclGroupOptions options,
                                            absl::AnyInvocable<void(FormedGroup)> formed) {
  auto group = std::make_shared<FormingNccl>(resources, std::move(options), std::move(formed));
  group->Start();
  return group;
}

}  // namespace cohort
