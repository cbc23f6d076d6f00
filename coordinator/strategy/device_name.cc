#include "coordinator/strategy/device_name.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"

namespace cohort {

absl::StatusOr<std::string> CanonicalDevice(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  absl::string_view rest = lower;
  // TensorFlow's full device names have the device after their last '/'.
  if (const size_t last = rest.rfind('/'); last != absl::string_view::npos) {
    rest.remove_prefix(last + 1);
  }
  absl::ConsumePrefix(&rest, "device:");
  const absl::string_view kind = rest.substr(0, rest.find(':'));
  int index = -1;
  // The name is valid only with a number after the ':', so "cpu" and "gpu:" are refused.
  const bool numbered = rest.size() > kind.size() &&
                        absl::SimpleAtoi(rest.substr(kind.size() + 1), &index) && index >= 0;
  if ((kind == "cpu" || kind == "gpu") && numbered) return absl::StrCat(kind, ":", index);
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a device: write cpu:0, gpu:1 or /device:GPU:1"));
}

absl::StatusOr<std::vector<std::string>> ReplicaDevices(const std::string& field,
                                                        const std::vector<std::string>& names) {
  std::vector<std::string> devices;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    absl::StatusOr<std::string> device = CanonicalDevice(name);
    if (!device.ok()) return Annotate(device.status(), field);
    // A GPU may be named several times, and its replicas then share it. A processor may be named
    // once: replicas on one processor have the names cpu:0, cpu:1 and so on.
    if (!seen.insert(*device).second && !IsGpu(*device)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", *device,
                       " is named twice; each replica has a device of its "
                       "own, and cpu:0, cpu:1, ... may share a processor"));
    }
    devices.push_back(*std::move(device));
  }
  return devices;
}

std::vector<std::string> DevicesIn(const std::vector<std::string>& named,
                                   const std::vector<std::string>& all) {
  if (!named.empty()) return named;
  // If the devices of the workers are not known, each worker has at least a processor.
  return all.empty() ? std::vector<std::string>{"cpu:0"} : all;
}

}  // namespace cohort
