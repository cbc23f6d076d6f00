#include "common/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cohort {

namespace {

// Version 1 says "no limit" with the largest number of whole pages.
constexpr uint64_t kNoMemoryLimit = uint64_t{1} << 62;

// A hierarchy of groups: where it is mounted, and which of its groups is the mount's root.
struct Mount {
  std::string point;
  std::string root;
  bool unified = false;               // version 2
  std::set<std::string> controllers;  // version 1
};

// The group of this process in one hierarchy.
struct Membership {
  std::set<std::string> controllers;  // empty: version 2
  std::string path;
};

// Files of these file systems say that they have no bytes, so they are read to their end.
std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::set<std::string> Words(absl::string_view text) { return absl::StrSplit(text, ','); }

// mountinfo writes a space, a tab, a newline and a backslash as three octal digits.
std::string Unescape(absl::string_view text) {
  constexpr size_t kEscapeBytes = 4;
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + kEscapeBytes > text.size()) {
      plain += text[i];
      continue;
    }
    int code = 0;
    for (size_t digit = 1; digit < kEscapeBytes; ++digit) code = code * 8 + (text[i + digit] - '0');
    plain += static_cast<char>(code);
    i += kEscapeBytes - 1;
  }
  return plain;
}

// "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime [optional fields] - cgroup cgroup rw,cpu".
std::vector<Mount> MountsIn(const std::string& path) {
  constexpr size_t kRoot = 3;
  constexpr size_t kPoint = 4;
  std::vector<Mount> mounts;
  for (const std::string& line : ReadLines(path)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() <= kPoint || fields.end() - dash < 4) continue;
    Mount mount{Unescape(fields[kPoint]), Unescape(fields[kRoot]), dash[1] == "cgroup2", {}};
    if (!mount.unified && dash[1] != "cgroup") continue;
    if (!mount.unified) mount.controllers = Words(dash[3]);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

// "4:memory:/docker/1f2e" of version 1, "0::/docker/1f2e" of version 2.
std::vector<Membership> MembershipsIn(const std::string& path) {
  std::vector<Membership> memberships;
  for (const std::string& line : ReadLines(path)) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    Membership membership{{}, fields[2]};
    if (!fields[1].empty()) membership.controllers = Words(fields[1]);
    memberships.push_back(std::move(membership));
  }
  return memberships;
}

// The directories of the process's group and of those above it. A path that leads out of the mount
// is that of a namespace's outside: its own groups begin at the mount.
std::vector<std::string> GroupsOf(const Mount& mount, absl::string_view path) {
  if (mount.root != "/" && !absl::ConsumePrefix(&path, mount.root)) path = "";
  if (path.substr(0, 3) == "/..") path = "";
  std::vector<std::string> groups = {mount.point};
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    groups.push_back(absl::StrCat(groups.back(), "/", part));
  }
  return groups;
}

std::vector<std::string> ReadFields(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> fields;
  for (std::string field; file >> field;) fields.push_back(std::move(field));
  return fields;
}

void LimitMemory(const std::string& file, CgroupLimits& limits) {
  const std::vector<std::string> fields = ReadFields(file);
  uint64_t bytes = 0;
  if (fields.empty() || !absl::SimpleAtoi(fields[0], &bytes) || bytes >= kNoMemoryLimit) return;
  limits.memory_bytes = std::min(bytes, limits.memory_bytes.value_or(bytes));
}

// "max" and -1 are no quota.
void LimitProcessors(const std::vector<std::string>& quota_and_period, CgroupLimits& limits) {
  double quota = 0;
  double period = 0;
  const bool read = quota_and_period.size() == 2 && absl::SimpleAtod(quota_and_period[0], &quota) &&
                    absl::SimpleAtod(quota_and_period[1], &period);
  if (!read || !(quota > 0) || !(period > 0)) return;
  limits.processors = std::min(quota / period, limits.processors.value_or(quota / period));
}

void LimitBy(const std::string& group, const Mount& mount, CgroupLimits& limits) {
  const auto has = [&](const char* controller) {
    return mount.unified || mount.controllers.contains(controller);
  };
  if (has("memory")) {
    LimitMemory(group + (mount.unified ? "/memory.max" : "/memory.limit_in_bytes"), limits);
  }
  if (!has("cpu")) return;
  if (mount.unified) return LimitProcessors(ReadFields(group + "/cpu.max"), limits);
  std::vector<std::string> fields = ReadFields(group + "/cpu.cfs_quota_us");
  for (std::string& field : ReadFields(group + "/cpu.cfs_period_us")) {
    fields.push_back(std::move(field));
  }
  LimitProcessors(fields, limits);
}

bool AreOfOneHierarchy(const Mount& mount, const Membership& membership) {
  if (mount.unified || membership.controllers.empty()) {
    return mount.unified && membership.controllers.empty();
  }
  return std::any_of(membership.controllers.begin(), membership.controllers.end(),
                     [&](const std::string& one) { return mount.controllers.contains(one); });
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  const std::vector<Membership> memberships = MembershipsIn(root + "/proc/self/cgroup");
  for (const Mount& mount : MountsIn(root + "/proc/self/mountinfo")) {
    for (const Membership& membership : memberships) {
      if (!AreOfOneHierarchy(mount, membership)) continue;
      for (const std::string& group : GroupsOf(mount, membership.path)) {
        LimitBy(root + group, mount, limits);
      }
    }
  }
  return limits;
}

}  // namespace cohort
