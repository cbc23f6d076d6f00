#pragma once

// Parameter servers and what a coordinator does with them around a cut: it saves, raises the epoch,
// restores, and lets closures run again.

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {

struct Cut {
  std::string prefix;
  uint64_t watermark = 1;
};

// Lives on the test's thread.
class CutCluster {
 public:
  CutCluster(int num_ps, FileSystem& files, const std::vector<VariableSpec>& variables)
      : CutCluster(num_ps, files, LayOut(variables, num_ps)) {}
  CutCluster(int num_ps, FileSystem& files, std::vector<proto::VariableLayout> layouts)
      : num_ps_(num_ps), cluster_(num_ps, files), layouts_(std::move(layouts)) {
    const absl::Status created = cluster_.CreateAll(layouts_);
    COHORT_CHECK(created.ok(), created.ToString().c_str());
  }

  PsCluster& ps() { return cluster_; }
  int num_ps() const { return num_ps_; }
  uint64_t epoch() const { return epoch_; }
  // In the order of variables and then of ps, which is the order of the ids.
  std::vector<proto::SliceHome> slices() const {
    std::vector<proto::SliceHome> all;
    for (const proto::VariableLayout& layout : layouts_) {
      all.insert(all.end(), layout.slices().begin(), layout.slices().end());
    }
    return all;
  }

  void NextEpoch() {
    ++epoch_;
    for (int ps = 0; ps < num_ps_; ++ps) {
      COHORT_CHECK(cluster_.Attach(ps, epoch_, kTestCoordinator).ok(), "a higher epoch is taken");
    }
  }

  absl::Status Save(const std::string& prefix) {
    std::vector<proto::SavedSlice> saved;
    for (int ps = 0; ps < num_ps_; ++ps) {
      proto::HoldShardRequest request = HoldRequest(prefix);
      request.set_epoch(epoch_);
      request.set_shard(ps);
      request.set_num_shards(num_ps_);
      ASSIGN_OR_RETURN(const auto slices, cluster_.SaveShard(ps, std::move(request)));
      saved.insert(saved.end(), slices.begin(), slices.end());
    }
    return WriteIndex(cluster_.files(), prefix, num_ps_, saved);
  }

  absl::StatusOr<uint32_t> Restore(int ps, const Cut& cut, bool applied = true) {
    Envelope<proto::RestoreShardRequest> request;
    request.header.set_epoch(epoch_);
    request.header.set_prefix(cut.prefix);
    request.header.set_applied(applied);
    request.header.set_watermark(cut.watermark);
    ASSIGN_OR_RETURN(const auto answer, cluster_.Call<proto::RestoreShardResponse>(
                                            ps, "/cohort.proto.PsService/RestoreShard", request));
    return answer.header.restored_tensors();
  }
  void GoBackTo(const Cut& cut) {
    NextEpoch();
    for (int ps = 0; ps < num_ps_; ++ps) {
      const absl::StatusOr<uint32_t> restored = Restore(ps, cut);
      ASSERT_TRUE(restored.ok()) << restored.status();
    }
  }

  // The closure's gradient, which depends on the closure alone, to one slice. Its worker sends in
  // the current epoch.
  absl::StatusOr<proto::PushResponse> Push(uint64_t closure, const proto::SliceHome& home,
                                           uint64_t watermark = 1) {
    for (const proto::VariableLayout& layout : layouts_) {
      for (const proto::SliceHome& slice : layout.slices()) {
        if (slice.slice_id() != home.slice_id()) continue;
        const SliceLayout whole = (*SlicesOf(layout))[0];
        Tensor gradient = Tensor::Scalar<int64_t>(static_cast<int64_t>(closure));
        if (whole.dtype == DType::kFloat32) {
          gradient = *InitialRows({"random_normal", 0, 1, closure}, layout.name(), whole.dtype,
                                  whole.full_shape, {home.row_begin(), home.row_count()});
        }
        auto push = PushOf({.closure = closure, .watermark = watermark, .step = closure},
                           {{home.slice_id(), gradient}});
        push.header.set_epoch(epoch_);
        return cluster_.Push(static_cast<int>(home.ps()), std::move(push));
      }
    }
    return absl::NotFoundError("no such slice");
  }

  struct Slice {
    uint64_t version = 0;
    std::string bytes;
    bool operator==(const Slice& other) const {
      return version == other.version && bytes == other.bytes;
    }
  };
  Slice Read(const proto::SliceHome& home) {
    Envelope<proto::PullRequest> pull = PullOf({home.slice_id()});
    pull.header.set_epoch(epoch_);
    const auto answer = cluster_.Call<proto::PullResponse>(
        static_cast<int>(home.ps()), "/cohort.proto.PsService/Pull", std::move(pull));
    COHORT_CHECK(answer.ok(), "a slice that is there");
    const Tensor value = (*ReadTensors(answer->header.tensors(), answer->payload))[0];
    return {answer->header.versions(0),
            std::string(reinterpret_cast<const char*>(value.raw()), value.num_bytes())};
  }
  int64_t ReadCounter(const proto::SliceHome& home) {
    int64_t value = 0;
    std::memcpy(&value, Read(home).bytes.data(), sizeof(value));
    return value;
  }
  std::vector<Slice> ReadAll() {
    std::vector<Slice> all;
    for (const proto::SliceHome& home : slices()) all.push_back(Read(home));
    return all;
  }

 private:
  const int num_ps_;
  PsCluster cluster_;
  const std::vector<proto::VariableLayout> layouts_;
  uint64_t epoch_ = kTestEpoch;
};

}  // namespace cohort
