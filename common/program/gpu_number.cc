#include "common/program/gpu_number.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace cohort {

std::optional<int32_t> GpuNumber(absl::string_view device) {
  int32_t number = 0;
  if (!absl::ConsumePrefix(&device, "gpu:") || !absl::SimpleAtoi(device, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace cohort
