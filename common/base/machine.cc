#include "common/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cohort {

namespace {

// The lowest memory limit that means "no limit". Version 1 of control groups expresses "no limit"
// as the largest number of whole pages, which lies above 2^62 bytes.
constexpr uint64_t kNoMemoryLimit = uint64_t{1} << 62;

// A mounted hierarchy of control groups: the mount point, and the group that is the mount's root.
struct Mount {
  std::string point;
  std::string root;
  bool unified = false;  // true for version 2 of control groups
  // The controllers of the mounted hierarchy, such as "memory", in version 1 of control groups;
  // empty in version 2.
  std::set<std::string> controllers;
};

// The control group of this process in one hierarchy.
struct Membership {
  // The controllers of the hierarchy, such as "memory", in version 1 of control groups; empty in
  // version 2.
  std::set<std::string> controllers;
  std::string path;
};

// Returns the lines of a file. Files in proc and cgroup file systems report a size of 0, so the
// file is read to its end.
std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

// Splits a list of controllers at its commas.
std::set<std::string> Words(absl::string_view text) { return absl::StrSplit(text, ','); }

// Undoes the escapes of a mountinfo file, which writes a space, a tab, a newline and a backslash as
// a backslash and three octal digits.
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

// Returns the mounts of control groups that the mountinfo file `path` lists. A line of the file
// looks like "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime [optional fields] - cgroup cgroup
// rw,cpu".
std::vector<Mount> MountsIn(const std::string& path) {
  constexpr size_t kRoot = 3;
  constexpr size_t kPoint = 4;
  std::vector<Mount> mounts;
  for (const std::string& line : ReadLines(path)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    // In a line of mountinfo, a lone dash ends the optional fields, whose number varies. The file
    // system type follows the dash.
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() <= kPoint || fields.end() - dash < 4) continue;
    Mount mount{Unescape(fields[kPoint]), Unescape(fields[kRoot]), dash[1] == "cgroup2", {}};
    if (!mount.unified && dash[1] != "cgroup") continue;
    if (!mount.unified) mount.controllers = Words(dash[3]);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

// Returns the control groups that a file such as /proc/self/cgroup lists. A line looks like
// "4:memory:/docker/1f2e" in version 1 of control groups and like "0::/docker/1f2e" in version 2.
std::vector<Membership> MembershipsIn(const std::string& path) {
  std::vector<Membership> memberships;
  for (const std::string& line : ReadLines(path)) {
    // The path of a control group may contain colons, so only the first two colons separate fields.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    Membership membership{{}, fields[2]};
    if (!fields[1].empty()) membership.controllers = Words(fields[1]);
    memberships.push_back(std::move(membership));
  }
  return memberships;
}

// Returns the directories of the process's control group `path` and of all groups above that group,
// beginning with the mount point. A `path` outside the mount belongs to the host and not to this
// process's cgroup namespace. The only group that this process can see is then the mount point.
std::vector<std::string> GroupsOf(const Mount& mount, absl::string_view path) {
  if (mount.root != "/" && !absl::ConsumePrefix(&path, mount.root)) path = "";
  if (path.substr(0, 3) == "/..") path = "";
  std::vector<std::string> groups = {mount.point};
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    groups.push_back(absl::StrCat(groups.back(), "/", part));
  }
  return groups;
}

// Returns the words of a file, which white space separates, or no words if the file is missing.
std::vector<std::string> ReadFields(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> fields;
  for (std::string field; file >> field;) fields.push_back(std::move(field));
  return fields;
}

// Lowers the memory limit in `limits` to the number in `file`, unless the limit is lower already.
// The word "max" in `file` means no limit.
void LimitMemory(const std::string& file, CgroupLimits& limits) {
  const std::vector<std::string> fields = ReadFields(file);
  uint64_t bytes = 0;
  if (fields.empty() || !absl::SimpleAtoi(fields[0], &bytes) || bytes >= kNoMemoryLimit) return;
  limits.memory_bytes = std::min(bytes, limits.memory_bytes.value_or(bytes));
}

// Lowers the processor limit in `limits` to quota / period, unless the limit is lower already. The
// quotas "max" and -1 mean no limit.
void LimitProcessors(const std::vector<std::string>& quota_and_period, CgroupLimits& limits) {
  double quota = 0;
  double period = 0;
  const bool read = quota_and_period.size() == 2 && absl::SimpleAtod(quota_and_period[0], &quota) &&
                    absl::SimpleAtod(quota_and_period[1], &period);
  if (!read || !(quota > 0) || !(period > 0)) return;
  limits.processors = std::min(quota / period, limits.processors.value_or(quota / period));
}

// Applies the limits of one control group to `limits`.
void LimitBy(const std::string& group, const Mount& mount, CgroupLimits& limits) {
  const auto has = [&](const char* controller) {
    return mount.unified || mount.controllers.contains(controller);
  };
  if (has("memory")) {
    LimitMemory(group + (mount.unified ? "/memory.max" : "/memory.limit_in_bytes"), limits);
  }
  if (!has("cpu")) return;
  if (mount.unified) return LimitProcessors(ReadFields(group + "/cpu.max"), limits);
  // Version 1 of control groups keeps the CPU quota and its period in two files; version 2 keeps
  // both in cpu.max.
  std::vector<std::string> fields = ReadFields(group + "/cpu.cfs_quota_us");
  for (std::string& field : ReadFields(group + "/cpu.cfs_period_us")) {
    fields.push_back(std::move(field));
  }
  LimitProcessors(fields, limits);
}

// Returns true if `mount` and `membership` belong to the same hierarchy of control groups.
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
        // The effective limit is the lowest limit of all groups from the mount point down to the
        // process's own group, so the limits of every group are applied.
        LimitBy(root + group, mount, limits);
      }
    }
  }
  return limits;
}

int ProcessorCountBelow(const std::string& root) {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  // sched_getaffinity fails on machines with more processors than cpu_set_t has bits; all
  // processors count in that case.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    count = std::min(count, CPU_COUNT(&allowed));
  }
  const CgroupLimits limits = ReadCgroupLimits(root);
  if (limits.processors.has_value() && *limits.processors < count) {
    count = static_cast<int>(std::ceil(*limits.processors));
  }
  return std::max(1, count);
}

size_t PhysicalMemory() {
  size_t bytes = std::numeric_limits<size_t>::max();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_size > 0) {
    bytes = static_cast<size_t>(pages) * static_cast<size_t>(page_size);
  }
  return std::min<size_t>(bytes, ReadCgroupLimits("").memory_bytes.value_or(bytes));
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  // gethostname() may cut off a long host name without a final zero byte, so the last byte of
  // `name`, a zero, is kept from it.
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace cohort
