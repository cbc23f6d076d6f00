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
  // TensorFlow's full names end with the device, after the last '/'.
  if (const size_t last = rest.rfind('/'); last != absl::string_view::npos) {
    rest.remove_prefix(last + 1);
  }
  absl::ConsumePrefix(&rest, "device:");
  const absl::string_view kind = rest.substr(0, rest.find(':'));
  int index = -1;
  // A number must follow the ':', so "cpu" and "gpu:" are not devices.
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
    // Replicas may share a GPU and its name, but each replica on a processor needs a name of its
    // own.
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
  // If no devices are known, a worker still has its processor.
  return all.empty() ? std::vector<std::string>{"cpu:0"} : all;
}

}  // namespace cohort
