#pragma once

// What replicas on GPUs leave there to be added up, and what the sums are in host memory: what
// tests of device_sums.h share.

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/replicas/device_sums.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

// Of outputs that each replica has computed, on GPUs of a table.
class SummandsOnDevices {
 public:
  // Replica i is on gpus[i], and has as many examples more than the first.
  SummandsOnDevices(const CudaTable& table, const std::vector<int32_t>& gpus,
                    const std::vector<Shape>& shapes)
      : host_(shapes.size()), outputs_(shapes.size()) {
    const auto replicas = static_cast<int64_t>(gpus.size());
    const int64_t all = replicas + replicas * (replicas - 1) / 2;
    uint32_t state = 1;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      streams_.push_back(*CudaStream::Open(table, gpus[static_cast<size_t>(replica)]));
      for (size_t i = 0; i < shapes.size(); ++i) {
        host_[i].push_back(Drawn(shapes[i], state));
        outputs_[i].values.push_back(streams_.back()->Upload(host_[i].back()));
        // Outputs differ in how they are joined.
        const JoinRule rule = i % 3 == 1 ? JoinRule::kSum : JoinRule::kOfExamples;
        outputs_[i].weights.push_back(LeafWeight(rule, 1 + replica, all, replicas));
      }
      EXPECT_TRUE(streams_.back()->Wait().ok());
    }
  }

  const std::vector<DeviceSummands>& outputs() const { return outputs_; }
  // On the host.
  const Tensor& value(size_t output, size_t replica) const { return host_[output][replica]; }

  // As join_replicas.h adds up.
  std::vector<Tensor> SumsOnHost() const {
    std::vector<Tensor> sums;
    const auto pool = std::make_shared<OutputPool>();
    for (size_t i = 0; i < host_.size(); ++i) {
      std::vector<Tensor> weighted;
      for (size_t replica = 0; replica < host_[i].size(); ++replica) {
        weighted.push_back(*Weighted(host_[i][replica], outputs_[i].weights[replica], *pool));
      }
      sums.push_back((*JoinReplicas(JoinRule::kSum, std::move(weighted)))[0]);
    }
    return sums;
  }

  // What the replicas have, read back.
  Tensor ReadBack(size_t output, size_t replica) {
    const Tensor& there = outputs_[output].values[replica];
    Tensor host(there.dtype(), there.shape());
    streams_[replica]->CopyToHost(there, host);
    EXPECT_TRUE(streams_[replica]->Wait().ok());
    return host;
  }

 private:
  // Of many magnitudes, so that every rounding shows.
  static Tensor Drawn(const Shape& shape, uint32_t& state) {
    Tensor drawn(DType::kFloat32, shape);
    for (int64_t i = 0; i < drawn.num_elements(); ++i) {
      state = state * 1664525u + 1013904223u;
      const float scale = static_cast<float>(1u << (state >> 28));
      drawn.mutable_data<float>()[i] = (static_cast<float>(state >> 8 & 0xffff) - 32768.0f) / scale;
    }
    return drawn;
  }

  std::vector<std::shared_ptr<CudaStream>> streams_;  // by replica
  std::vector<std::vector<Tensor>> host_;             // by output and replica
  std::vector<DeviceSummands> outputs_;
};

inline std::vector<float> FloatsOf(const Tensor& tensor) {
  if (tensor.num_elements() == 0) return {};
  const auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

// Bit for bit: of these values none is NaN, and no sum a zero of another sign.
inline void ExpectSums(const absl::StatusOr<std::vector<Tensor>>& got,
                       const std::vector<Tensor>& wanted) {
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_FALSE(IsOnDevice((*got)[i]));
    EXPECT_EQ((*got)[i].shape(), wanted[i].shape());
    EXPECT_EQ(FloatsOf((*got)[i]), FloatsOf(wanted[i])) << "output " << i;
  }
}

}  // namespace cohort
