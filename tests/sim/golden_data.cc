#include "tests/sim/golden_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "common/wire/message.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using nlohmann::json;

std::string BigEndian(uint32_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift));
  return bytes;
}

}  // namespace

SimFate StepLosses::OnResponse(const SimMessage& message) {
  if (!absl::EndsWith(message.method, "/RunClosure") || !message.response->ok()) return {};
  proto::RunClosureResponse answer;
  EXPECT_TRUE(answer.ParseFromString((*message.response)->header));
  EXPECT_GE(answer.fetches_size(), 2);
  PayloadReader reader((*message.response)->payload);
  const auto sum = reader.ReadTensor(answer.fetches(0));
  const auto count = reader.ReadTensor(answer.fetches(1));
  EXPECT_TRUE(sum.ok() && count.ok());
  losses_.push_back(sum->span<float>()[0] / count->span<float>()[0]);
  return {};
}

std::string IdxOf(const std::vector<json>& tensors) {
  const bool is_float = tensors[0]["dtype"] == "float32";
  std::vector<uint32_t> dims = tensors[0]["shape"];
  dims[0] *= static_cast<uint32_t>(tensors.size());
  std::string bytes = {0, 0, is_float ? '\x0d' : '\x0c', static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) bytes += BigEndian(dim);
  for (const json& tensor : tensors) {
    for (const json& element : tensor["data"]) {
      const float real = is_float ? element.get<float>() : 0;
      uint32_t word = is_float ? 0 : static_cast<uint32_t>(element.get<int32_t>());
      if (is_float) std::memcpy(&word, &real, sizeof(word));
      bytes += BigEndian(word);
    }
  }
  return bytes;
}

}  // namespace cohort
