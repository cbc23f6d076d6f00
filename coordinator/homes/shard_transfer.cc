#include "coordinator/homes/shard_transfer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/limited_group.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/homes/shard_stream.h"

namespace cohort {

namespace {

using Slices = std::vector<proto::SavedSlice>;

constexpr char kHoldShard[] = "/cohort.proto.PsService/HoldShard";
constexpr char kWriteShard[] = "/cohort.proto.PsService/WriteShard";
constexpr char kReleaseShard[] = "/cohort.proto.PsService/ReleaseShard";
constexpr char kRestoreShard[] = "/cohort.proto.PsService/RestoreShard";
constexpr char kProbeDirectory[] = "/cohort.proto.PsService/ProbeDirectory";

// The time limit of HoldShard calls. It is short, because new closures may have to wait for these
// calls, and a ps only takes leases on its slices, without copying them.
constexpr absl::Duration kHoldTimeout = absl::Seconds(5);
constexpr char kProbePrefix[] = "cohort-probe-";

// Makes a request that only names the save to which the held shards belong. It is the same for
// every ps.
template <typename Request>
Request About(const ShardTransfer::Held& held) {
  Request request;
  request.set_epoch(held.epoch);
  request.set_save(held.save);
  return request;
}

// Removes probe files that coordinators of earlier epochs have left behind in the directory.
void RemoveOldProbes(FileSystem& files, const std::string& directory, uint64_t epoch) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, kProbePrefix)) continue;
    uint64_t of_epoch = 0;
    const bool known = absl::SimpleAtoi(rest.substr(0, rest.find('-')), &of_epoch);
    if (known && of_epoch < epoch) files.Remove(JoinPath(directory, name)).IgnoreError();
  }
}

// Checks that the processes that answered HoldShard are those to which the links lead. A ps may
// have been restarted and attached before the coordinator knows of its loss. The new process holds
// no variables, and its empty shard must not be part of a checkpoint.
absl::Status CheckHolders(const std::vector<TaskLink>& links,
                          const std::vector<Envelope<proto::HoldShardResponse>>& answers) {
  for (size_t i = 0; i < links.size(); ++i) {
    const proto::TaskRef& task = links[i].task;
    if (answers[i].header.incarnation() == task.incarnation()) continue;
    return WithOrigin(MakeError(absl::StatusCode::kUnavailable,
                                absl::StrCat(TaskName(task), " was started again: the process at ",
                                             links[i].address, " is incarnation ",
                                             answers[i].header.incarnation()),
                                proto::PS_LOST),
                      task);
  }
  return absl::OkStatus();
}

// Returns the slices of all shards in one list, shard by shard.
Slices Join(std::vector<Slices> shards) {
  Slices all;
  for (Slices& shard : shards) {
    all.insert(all.end(), std::make_move_iterator(shard.begin()),
               std::make_move_iterator(shard.end()));
  }
  return all;
}

}  // namespace

std::shared_ptr<ShardTransfer> ShardTransfer::Create(World world, Options options,
                                                     std::shared_ptr<Cluster> cluster) {
  return std::shared_ptr<ShardTransfer>(new ShardTransfer(world, options, std::move(cluster)));
}

ShardTransfer::ShardTransfer(World world, Options options, std::shared_ptr<Cluster> cluster)
    : world_(world), options_(options), cluster_(std::move(cluster)) {}

std::optional<bool> ShardTransfer::Known(const std::string& directory, uint64_t epoch) const {
  if (options_.mode != CheckpointMode::kAuto) return options_.mode == CheckpointMode::kShared;
  MutexLock lock(mutex_);
  const auto found = shared_.find(directory);
  // The directory is probed again in each epoch, because tasks may run on other machines then.
  if (probed_epoch_ != epoch || found == shared_.end()) return std::nullopt;
  return found->second;
}

void ShardTransfer::Choose(const std::string& prefix, uint64_t epoch, const Links& links,
                           WhenChosen done) {
  const std::string directory = DirectoryOf(prefix);
  if (const std::optional<bool> known = Known(directory, epoch); known.has_value()) {
    return done(*known);
  }
  Probe(directory, epoch, links, std::move(done));
}

void ShardTransfer::Probe(const std::string& directory, uint64_t epoch, const Links& links,
                          WhenChosen done) {
  const uint64_t number = cluster_->NextSave();
  const std::string path = JoinPath(directory, absl::StrCat(kProbePrefix, epoch, "-", number));
  RemoveOldProbes(world_.files, directory, epoch);
  // The token depends on the incarnation of this process. So no file of another process contains
  // it.
  const RandomStream stream(cluster_->self().incarnation, "checkpoint probe");
  const std::string token =
      absl::StrFormat("%016x%016x", stream.Child(epoch).Bits(number), stream.Bits(number));
  if (absl::Status written = WriteFileAtomically(world_.files, path, token); !written.ok()) {
    // If this process cannot write to the directory, the files are streamed.
    Log(LogLevel::kInfo, "checkpoint_directory_not_probed", {{"cause", written.message()}});
    OnProbed(directory, epoch, false);
    return done(false);
  }
  Envelope<proto::ProbeDirectoryRequest> request;
  request.header.set_epoch(epoch);
  request.header.set_path(path);
  request.header.set_token(token);
  std::vector<Envelope<proto::ProbeDirectoryRequest>> requests(links.size(), request);
  CallEach<proto::ProbeDirectoryResponse>(
      links, kProbeDirectory, std::move(requests), options_.call_timeout,
      [self = shared_from_this(), directory, epoch, path,
       done = std::move(done)](auto answers) mutable {
        // File operations may block, so they must not run on a thread of the transport.
        self->world_.executor.Run([self, directory, epoch, path, done = std::move(done),
                                   answers = std::move(answers)]() mutable {
          // The probe file has 32 bytes. If it cannot be removed, it is left behind.
          self->world_.files.Remove(path).IgnoreError();
          if (!answers.ok()) return done(answers.status());
          const bool shared = std::all_of(answers->begin(), answers->end(),
                                          [](const auto& one) { return one.header.seen(); });
          self->OnProbed(directory, epoch, shared);
          done(shared);
        });
      });
}

void ShardTransfer::OnProbed(const std::string& directory, uint64_t epoch, bool shared) {
  Log(LogLevel::kInfo, "checkpoint_mode",
      {{"directory", directory}, {"epoch", epoch}, {"mode", shared ? "shared" : "stream"}});
  MutexLock lock(mutex_);
  // The result of a probe in an older epoch no longer counts.
  if (epoch < probed_epoch_) return;
  if (epoch > probed_epoch_) shared_.clear();
  probed_epoch_ = epoch;
  shared_[directory] = shared;
}

void ShardTransfer::Hold(const SaveOrder& order,
                         absl::AnyInvocable<void(absl::StatusOr<Held>)> done) {
  absl::StatusOr<Links> links = cluster_->savers();
  if (!links.ok()) return done(links.status());
  Held held{order.epoch, cluster_->NextSave(), order.prefix, *std::move(links), {}};
  std::vector<Envelope<proto::HoldShardRequest>> requests(held.links.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    proto::HoldShardRequest& request = requests[i].header;
    request = About<proto::HoldShardRequest>(held);
    request.set_prefix(order.prefix);
    request.set_shard(static_cast<int32_t>(i));
    request.set_num_shards(static_cast<int32_t>(requests.size()));
    // Only the first shard gets the extra tensors.
    if (i == 0) *request.mutable_extras() = {order.extras.begin(), order.extras.end()};
  }
  CallEach<proto::HoldShardResponse>(
      held.links, kHoldShard, std::move(requests), std::min(options_.call_timeout, kHoldTimeout),
      [self = shared_from_this(), held, done = std::move(done)](auto answers) mutable {
        const absl::Status status =
            answers.ok() ? CheckHolders(held.links, *answers) : answers.status();
        if (!status.ok()) {
          self->Release(held);
          return done(status);
        }
        for (const auto& answer : *answers) {
          held.layouts.emplace_back(answer.header.slices().begin(), answer.header.slices().end());
        }
        done(std::move(held));
      });
}

void ShardTransfer::Release(const Held& held) {
  const Envelope<proto::ReleaseShardRequest> request = {About<proto::ReleaseShardRequest>(held),
                                                        {}};
  // The answers are not awaited. If a call fails, the ps drops its shard after a while by itself.
  CallEach<proto::ReleaseShardResponse>(
      held.links, kReleaseShard,
      std::vector<Envelope<proto::ReleaseShardRequest>>(held.links.size(), request),
      options_.call_timeout, [](const auto&) {});
}

void ShardTransfer::Write(Held held, SaveDone done) {
  const std::string prefix = held.prefix;
  const uint64_t epoch = held.epoch;
  const Links links = held.links;
  Choose(prefix, epoch, links,
         [self = shared_from_this(), held = std::move(held),
          done = std::move(done)](absl::StatusOr<bool> shared) mutable {
           if (!shared.ok()) {
             self->Release(held);
             return done(shared.status());
           }
           if (*shared) return self->WriteShared(held, std::move(done));
           self->WriteStreamed(held, std::move(done));
         });
}

void ShardTransfer::Save(const SaveOrder& order, SaveDone done) {
  Hold(order, [self = shared_from_this(), done = std::move(done)](auto held) mutable {
    if (!held.ok()) return done(held.status());
    self->Write(*std::move(held), std::move(done));
  });
}

void ShardTransfer::WriteShared(const Held& held, SaveDone done) {
  const Envelope<proto::WriteShardRequest> request = {About<proto::WriteShardRequest>(held), {}};
  CallEach<proto::WriteShardResponse>(
      held.links, kWriteShard,
      std::vector<Envelope<proto::WriteShardRequest>>(held.links.size(), request),
      options_.call_timeout,
      [self = shared_from_this(), held, done = std::move(done)](auto answers) mutable {
        if (!answers.ok()) {
          self->Release(held);
          return done(answers.status());
        }
        std::vector<Slices> shards;
        for (const auto& answer : *answers) {
          shards.emplace_back(answer.header.slices().begin(), answer.header.slices().end());
        }
        done(Join(std::move(shards)));
      });
}

void ShardTransfer::WriteStreamed(const Held& held, SaveDone done) {
  const int count = static_cast<int>(held.links.size());
  LimitedGroup<Slices>::Run(
      {held.links.size(), kStreamedAtOnce},
      [self = shared_from_this(), held, count](size_t i, auto one) {
        StartShardDownload(self->world_,
                           {held.links[i],
                            About<proto::WriteShardRequest>(held),
                            {held.prefix, static_cast<int>(i), count},
                            held.layouts[i],
                            self->options_.call_timeout,
                            self->options_.chunk_bytes},
                           std::move(one));
      },
      [self = shared_from_this(), held,
       done = std::move(done)](absl::StatusOr<std::vector<Slices>> shards) mutable {
        if (!shards.ok()) {
          // Shards whose download has failed or has not begun are still held.
          self->Release(held);
          return done(shards.status());
        }
        done(Join(*std::move(shards)));
      });
}

void ShardTransfer::Restore(RestoreOrder order, absl::AnyInvocable<void(absl::Status)> done) {
  cluster_->BeginChange();
  done = [cluster = cluster_, done = std::move(done)](absl::Status status) mutable {
    cluster->EndChange();
    done(std::move(status));
  };
  const absl::StatusOr<Links> links = cluster_->ps();
  if (!links.ok()) return done(links.status());
  proto::RestoreShardRequest request;
  request.set_epoch(order.epoch);
  request.set_prefix(order.prefix);
  request.set_slots(order.slots);
  request.set_new_slots(order.new_slots);
  request.set_applied(order.applied);
  request.set_watermark(order.watermark);
  // A restore of initial values reads no files, so the mode does not matter.
  if (order.prefix.empty()) return RestoreShared(request, *links, std::move(done));
  Choose(order.prefix, order.epoch, *links,
         [self = shared_from_this(), request, links = *links,
          done = std::move(done)](absl::StatusOr<bool> shared) mutable {
           if (!shared.ok()) return done(shared.status());
           if (*shared) return self->RestoreShared(request, links, std::move(done));
           self->RestoreStreamed(request, links, std::move(done));
         });
}

void ShardTransfer::RestoreShared(const proto::RestoreShardRequest& request, const Links& links,
                                  absl::AnyInvocable<void(absl::Status)> done) {
  std::vector<Envelope<proto::RestoreShardRequest>> requests(links.size());
  for (auto& one : requests) one.header = request;
  CallEach<proto::RestoreShardResponse>(
      links, kRestoreShard, std::move(requests), options_.call_timeout,
      [done = std::move(done)](auto answers) mutable { done(answers.status()); });
}

void ShardTransfer::RestoreStreamed(const proto::RestoreShardRequest& request, const Links& links,
                                    absl::AnyInvocable<void(absl::Status)> done) {
  absl::StatusOr<std::unique_ptr<BundleReader>> reader =
      BundleReader::Open(world_.files, request.prefix());
  if (!reader.ok()) return done(reader.status());
  proto::RestoreShardRequest staged = request;
  // The same number serves for all uploads, because each ps keeps the restores that it stages
  // apart.
  staged.set_staged(cluster_->NextSave());
  LimitedGroup<bool>::Run(
      {links.size(), kStreamedAtOnce},
      [self = shared_from_this(), staged, links,
       reader = std::shared_ptr<const BundleReader>(*std::move(reader))](size_t i, auto one) {
        StartShardUpload(
            self->world_,
            {links[i], reader, staged, self->options_.call_timeout, self->options_.chunk_bytes},
            [one = std::move(one)](absl::Status status) mutable {
              if (!status.ok()) return one(status);
              one(true);
            });
      },
      [done = std::move(done)](auto all) mutable { done(all.status()); });
}

}  // namespace cohort
