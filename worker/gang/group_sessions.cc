#include "worker/gang/group_sessions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/wire/error_detail.h"
#include "worker/collective/flight_recorder.h"

namespace cohort {

namespace {

// Returns the error for gangs of a generation that is over because a later one has begun.
absl::Status Over() {
  return MakeError(absl::StatusCode::kAborted,
                   "a later generation of synchronous steps has begun: this one has to be, too",
                   proto::TRANSIENT);
}

absl::Status Stopping() {
  return MakeError(absl::StatusCode::kAborted, "a worker of these synchronous steps is stopping",
                   proto::TRANSIENT);
}

// Returns the error with which this worker ends a generation because it does not reach `member`.
// The error names `member` as origin with class WORKER_LOST; the coordinator decides whether it is
// lost.
absl::Status Unreached(const proto::TaskRef& own, const proto::TaskRef& member) {
  return WithOrigin(
      MakeError(absl::StatusCode::kUnavailable,
                absl::StrCat(TaskName(own), " has not reached ", TaskName(member), " for a while"),
                proto::WORKER_LOST),
      member);
}

// Returns true if a generation ended by a failure, and not by a later generation or by a worker
// that stops.
bool IsFailure(const absl::Status& why) { return why != Over() && why != Stopping(); }

// The number of collective calls that are logged when a generation has failed. All recorded calls
// can be asked for (frame_router.h) and are written to a flight file.
constexpr size_t kCallsLogged = 16;
void LogFlight(uint64_t generation, const FlightRecorder& recorder, const absl::Status& why) {
  Log(LogLevel::kWarning, "gang_group_failed",
      {{"generation", generation},
       {"cause", why.message()},
       {"last_done", recorder.LastDone()},
       {"calls", recorder.Newest(kCallsLogged)}});
}

absl::string_view HostOf(absl::string_view address) {
  return address.substr(0, address.rfind(':'));
}

// Groups the members by the host in their address. Members on one host whose addresses name it
// differently count as members on several hosts, which costs time but is no error.
HostLayout HostsOf(const proto::Gang& gang) {
  HostLayout hosts;
  std::map<absl::string_view, int> numbers;
  for (const proto::Peer& member : gang.members()) {
    const int next = static_cast<int>(numbers.size());
    hosts.host_of.push_back(numbers.emplace(HostOf(member.address()), next).first->second);
  }
  return hosts;
}

// Returns true if all members have the same host in their address and the coordinator has chosen a
// number for shared memory. Members on different hosts would need seconds to find out that they
// cannot share memory, so they do not try.
bool MayShareMemory(const proto::Gang& gang, const HostLayout& hosts) {
  if (gang.shared_memory() == 0) return false;
  // Hosts are numbered in the order of their appearance, so members of one host all have host 0.
  return std::count(hosts.host_of.begin(), hosts.host_of.end(), 0) == gang.members_size();
}

// Returns the name of the socket at which the members meet to share memory. Every member computes
// the same name, and every generation has another.
std::string SocketOf(const proto::Gang& gang) {
  const uint64_t first = Mix64(gang.shared_memory() + gang.generation());
  return absl::StrFormat("cohort-gang:%016x%016x", first, Mix64(first ^ gang.shared_memory()));
}

// Returns the name of the groups of one coordinator. The coordinator's incarnation is part of the
// name, because each coordinator numbers its generations from the start.
std::string NameOf(uint64_t coordinator) {
  return absl::StrCat("workers/", absl::Hex(coordinator));
}

}  // namespace

GroupSessions::GroupSessions(World world, FindNccl find_nccl, std::string flight_directory,
                             std::shared_ptr<PeerReach> reach)
    : world_(world),
      find_nccl_(std::move(find_nccl)),
      flight_directory_(std::move(flight_directory)),
      reach_(std::move(reach)),
      router_(std::make_shared<FrameRouter>()) {}

void GroupSessions::Restart(uint64_t coordinator) { EndPresent(coordinator, Over()); }

void GroupSessions::Leave() {
  {
    MutexLock lock(mutex_);
    left_ = true;
  }
  EndPresent(0, Stopping());
  forming_.Close();
}

void GroupSessions::EndPresent(uint64_t coordinator, const absl::Status& why) {
  std::shared_ptr<Generation> before;
  {
    MutexLock lock(mutex_);
    coordinator_ = coordinator;
    before = std::exchange(current_, nullptr);
  }
  if (before != nullptr) EndGeneration(*before, why);
  // RPCs for groups of earlier coordinators are refused, so that they do not wait for groups which
  // this worker will never form.
  router_->Only(NameOf(coordinator));
}

void GroupSessions::Join(const proto::Gang& gang, Ready ready) {
  if (gang.members_size() <= 1) return ready(nullptr);
  const std::shared_ptr<Generation> generation = Enter(gang);
  absl::StatusOr<std::shared_ptr<GangGroup>> known = Over();
  if (generation != nullptr) {
    MutexLock lock(mutex_);
    if (!generation->ended.ok()) {
      known = generation->ended;
    } else if (generation->group != nullptr) {
      known = generation->group;
    } else {
      generation->waiting.push_back(std::move(ready));
      return;
    }
  }
  // `ready` is called outside the lock, because the gang may run at once and end the generation.
  ready(std::move(known));
}

void GroupSessions::End(const proto::Gang& gang, const absl::Status& why) {
  if (gang.members_size() <= 1) return;
  if (const auto generation = Enter(gang)) EndGeneration(*generation, why);
}

std::shared_ptr<GroupSessions::Generation> GroupSessions::Enter(const proto::Gang& gang) {
  std::shared_ptr<Generation> entered;
  std::shared_ptr<Generation> before;
  uint64_t coordinator = 0;
  {
    MutexLock lock(mutex_);
    if (left_) return nullptr;
    // The first gang of a later generation begins this generation; a gang of an earlier generation
    // is too late.
    if (current_ != nullptr && gang.generation() == current_->number) return current_;
    if (current_ != nullptr && gang.generation() < current_->number) return nullptr;
    entered = std::make_shared<Generation>();
    entered->number = gang.generation();
    before = std::exchange(current_, entered);
    coordinator = coordinator_;
  }
  // The earlier generation is ended outside the lock, because its end runs the callbacks of waiting
  // gangs.
  if (before != nullptr) EndGeneration(*before, Over());
  WatchMembers(gang, entered);
  Form(gang, coordinator, entered);
  return entered;
}

void GroupSessions::WatchMembers(const proto::Gang& gang,
                                 const std::shared_ptr<Generation>& generation) {
  std::vector<PeerReach::Need> needs;
  for (const proto::Peer& member : gang.members()) {
    if (member.task().index() == own_.index()) continue;
    // The listener refers to the generation weakly, because the generation owns the watch, which
    // owns the listener.
    auto listener = [weak = weak_from_this(), of = std::weak_ptr(generation),
                     task = member.task()](PeerReach::Change change) {
      const auto self = weak.lock();
      const auto generation = of.lock();
      if (self == nullptr || generation == nullptr) return;
      // A member that is unreached is tolerated until PeerReach gives it up or reaches it again.
      if (change == PeerReach::Change::kUnreached) return;
      self->EndGeneration(*generation, Unreached(self->own_, task));
    };
    needs.push_back(reach_->Watch(member.task(), member.address(), std::move(listener)));
  }
  // If the generation has ended meanwhile, its new watches are dropped here.
  MutexLock lock(mutex_);
  if (generation->ended.ok()) generation->needs.swap(needs);
}

void GroupSessions::Form(const proto::Gang& gang, uint64_t coordinator,
                         std::shared_ptr<Generation> generation) {
  LaneGroupOptions group;
  group.name = {NameOf(coordinator), gang.generation()};
  group.rank = -1;
  group.size = gang.members_size();
  group.hosts = HostsOf(gang);
  std::vector<std::string> addresses;
  for (int rank = 0; rank < gang.members_size(); ++rank) {
    const proto::Peer& member = gang.members(rank);
    group.tasks.push_back(member.task());
    addresses.push_back(member.address());
    if (member.task().index() == own_.index()) group.rank = rank;
  }
  // A worker that is not a member has no rank. All that it can do is end the generation.
  if (group.rank < 0) {
    return EndGeneration(*generation,
                         absl::InvalidArgumentError(absl::StrCat("a gang of ", gang.members_size(),
                                                                 " workers does not have ",
                                                                 TaskName(own_), " among them")));
  }
  const GroupResources resources{world_.clock, world_.executor, world_.transport, router_};
  auto formed = [self = shared_from_this(), generation](FormedGroup group) {
    self->Formed(*generation, std::move(group));
  };
  if (!gang.has_nccl_device()) {
    std::string socket = MayShareMemory(gang, group.hosts) ? SocketOf(gang) : "";
    return KeepForming(
        *generation,
        FormGroup(resources, {std::move(group), std::move(addresses), std::move(socket)},
                  std::move(formed)));
  }
  // The group is formed on the executor, because loading NCCL for the first time takes long.
  world_.executor.Run([self = shared_from_this(), generation, resources, group = std::move(group),
                       addresses = std::move(addresses), device = gang.nccl_device(),
                       formed = std::move(formed)]() mutable {
    if (!self->forming_.Enter()) return;
    FormNcclGroupOptions options = {std::move(group), std::move(addresses), device,
                                    NcclOf(self->find_nccl_)};
    self->KeepForming(*generation, FormNcclGroup(resources, std::move(options), std::move(formed)));
    self->forming_.Leave();
  });
}

void GroupSessions::KeepForming(Generation& generation,
                                const std::shared_ptr<FormingGroup>& forming) {
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    generation.forming = forming;
    ended = generation.ended;
  }
  if (!ended.ok()) forming->GiveUp(ended);
}

void GroupSessions::Formed(Generation& generation, FormedGroup formed) {
  Log(LogLevel::kInfo, "gang_group",
      {{"generation", generation.number},
       {"rank", formed.communicator->rank()},
       {"size", formed.communicator->size()},
       {"how", formed.how}});
  auto group = std::make_shared<GangGroup>(std::move(formed.communicator), world_.executor);
  std::vector<Ready> waiting;
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    generation.group = group;
    generation.recorder = std::move(formed.recorder);
    ended = generation.ended;
    waiting = std::exchange(generation.waiting, {});
  }
  // If the generation ended while its group was forming, the other members learn the cause now.
  if (!ended.ok()) group->communicator().Abort(ended);
  for (Ready& ready : waiting) ready(group);
}

void GroupSessions::EndGeneration(Generation& generation, const absl::Status& why) {
  std::shared_ptr<GangGroup> group;
  std::shared_ptr<FormingGroup> forming;
  std::shared_ptr<const FlightRecorder> recorder;
  std::vector<Ready> waiting;
  std::vector<PeerReach::Need> needs;
  {
    MutexLock lock(mutex_);
    // Only the first cause counts; later errors are its consequences.
    if (!generation.ended.ok()) return;
    generation.ended = why;
    group = generation.group;
    forming = generation.forming.lock();
    recorder = generation.recorder;
    waiting = std::exchange(generation.waiting, {});
    needs.swap(generation.needs);
  }
  // The watches are released outside the lock, because PeerReach may be calling a listener.
  needs.clear();
  if (group != nullptr) {
    group->communicator().Abort(why);
    if (IsFailure(why)) {
      LogFlight(generation.number, *recorder, why);
      KeepFlight(std::move(recorder), why);
    }
  }
  // A worker that ends must not leave a thread behind that waits for other members.
  if (group == nullptr && forming != nullptr) forming->GiveUp(why);
  // The callbacks run outside the lock, because they may call this object again.
  for (Ready& ready : waiting) ready(why);
}

// Writes the flight record to a file on the executor, so that the end of a generation does not wait
// for the disk.
void GroupSessions::KeepFlight(std::shared_ptr<const FlightRecorder> recorder,
                               const absl::Status& why) {
  if (flight_directory_.empty()) return;
  world_.executor.Run([self = shared_from_this(), recorder = std::move(recorder), why] {
    const absl::Time now = self->world_.clock.Now();
    proto::GroupFlight flight = recorder->ToProto(FlightRecorder::kFlightRecordsMax, now);
    if (flight.ended_with().empty()) flight.set_ended_with(std::string(why.message()));
    const absl::StatusOr<std::string> file =
        WriteFlightFile(self->world_.files, self->flight_directory_, self->own_, flight, now);
    // A flight record that cannot be written is only logged, because training goes on without it.
    if (!file.ok()) {
      return Log(LogLevel::kWarning, "flight_record_lost",
                 {{"generation", flight.generation()},
                  {"cause", file.status().message()},
                  {"remedy", "give --flight_dir a directory that can be written, or none"}});
    }
    Log(LogLevel::kInfo, "flight_record",
        {{"generation", flight.generation()},
         {"calls", flight.operations_size()},
         {"file", *file}});
  });
}

}  // namespace cohort
