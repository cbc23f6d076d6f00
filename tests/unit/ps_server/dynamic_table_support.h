#pragma once

// Dynamic tables as a coordinator and workers use them: pushes and reads of keys, over the slices
// of one or more parameter servers.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/tensor/slice_spec.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/checkpoint/cut_cluster.h"

namespace cohort {

inline constexpr int64_t kWidth = 3;
inline constexpr char kPull[] = "/cohort.proto.PsService/Pull";

inline VariableSpec ZeroTable(const proto::UpdateRule& rule) {
  VariableSpec spec = TableSpec("t", kWidth, rule);
  spec.initializer = "zeros";
  return spec;
}

// Of the slice, in the given order.
inline std::vector<int64_t> KeysOf(const proto::SliceHome& slice,
                                   const std::vector<int64_t>& keys) {
  std::vector<int64_t> own;
  for (const int64_t key : keys) {
    const int64_t bucket = KeyBucket(key) - slice.row_begin();
    if (bucket >= 0 && bucket < slice.row_count()) own.push_back(key);
  }
  return own;
}

// Some of many keys, with repeats.
inline std::vector<int64_t> SomeKeys(uint64_t seed, size_t count) {
  SequenceRng rng(seed);
  std::vector<int64_t> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(static_cast<int64_t>(Mix64(rng.Below(300))));
  }
  return keys;
}

inline Tensor GradientsOf(const std::vector<int64_t>& keys, uint64_t closure) {
  Tensor all(DType::kFloat32, Shape{static_cast<int64_t>(keys.size()), kWidth});
  for (size_t i = 0; i < keys.size(); ++i) {
    const RandomStream stream(closure, absl::StrCat(keys[i]));
    for (size_t k = 0; k < kWidth; ++k) {
      all.mutable_data<float>()[i * kWidth + k] = stream.Normal(k);
    }
  }
  return all;
}

// The closure's push of these keys to one slice. The gradient of a key depends on both alone.
inline absl::StatusOr<proto::PushResponse> Push(CutCluster& cluster, const proto::SliceHome& slice,
                                                uint64_t closure, const std::vector<int64_t>& keys,
                                                uint64_t time_ms = 0) {
  const std::vector<int64_t> own = KeysOf(slice, keys);
  auto request = PushRowsOf({.closure = closure, .learning_rate = 0.1, .step = closure},
                            {{slice.slice_id(), own, GradientsOf(own, closure)}});
  request.header.set_epoch(cluster.epoch());
  request.header.set_time_ms(time_ms);
  return cluster.ps().Push(static_cast<int>(slice.ps()), std::move(request));
}

inline void PushToAll(CutCluster& cluster, uint64_t closure, const std::vector<int64_t>& keys,
                      uint64_t time_ms = 0) {
  for (const proto::SliceHome& slice : cluster.slices()) {
    const auto answer = Push(cluster, slice, closure, keys, time_ms);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
}

inline absl::StatusOr<Tensor> PullKeys(CutCluster& cluster, const proto::SliceHome& slice,
                                       const std::vector<int64_t>& keys) {
  const Tensor ids = Tensor::FromVector(keys, Shape{static_cast<int64_t>(keys.size())});
  Envelope<proto::PullRequest> pull = PullOf({});
  pull.header.set_epoch(cluster.epoch());
  proto::PullRows& rows = *pull.header.add_rows();
  rows.set_slice_id(slice.slice_id());
  *rows.mutable_ids() = MetaOf(ids);
  pull.payload.push_back(SliceOf(ids));
  ASSIGN_OR_RETURN(const auto answer, cluster.ps().Call<proto::PullResponse>(
                                          static_cast<int>(slice.ps()), kPull, std::move(pull)));
  ASSIGN_OR_RETURN(const auto tensors, ReadTensors(answer.header.tensors(), answer.payload));
  return tensors[0];
}

// The bits of each key's row, wherever it is.
inline std::map<int64_t, std::string> ReadTable(CutCluster& cluster,
                                                const std::vector<int64_t>& keys) {
  std::map<int64_t, std::string> table;
  for (const proto::SliceHome& slice : cluster.slices()) {
    const std::vector<int64_t> own = KeysOf(slice, keys);
    const auto rows = PullKeys(cluster, slice, own);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (size_t i = 0; rows.ok() && i < own.size(); ++i) {
      table[own[i]].assign(reinterpret_cast<const char*>(rows->data<float>() + i * kWidth),
                           kWidth * sizeof(float));
    }
  }
  return table;
}

inline proto::DynamicTableUse UseOf(CutCluster& cluster, int ps) {
  Envelope<proto::PsStatsRequest> request;
  request.header.set_epoch(cluster.epoch());
  const auto stats = cluster.ps().Call<proto::PsStatsResponse>(
      ps, "/cohort.proto.PsService/GetStats", std::move(request));
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.ok() ? stats->header.tables() : proto::DynamicTableUse();
}

inline uint64_t RowsIn(CutCluster& cluster, int ps) { return UseOf(cluster, ps).rows(); }

}  // namespace cohort
