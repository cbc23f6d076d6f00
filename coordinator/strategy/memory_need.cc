#include "coordinator/strategy/memory_need.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/tensor/dtype.h"
#include "common/wire/error_detail.h"
#include "coordinator/strategy/placement.h"
#include "coordinator/strategy/variable_pieces.h"

namespace cohort {

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Returns the size of a slice's value in bytes, or the largest int64 if the size overflows. Returns
// 0 for a dynamic table, because a step reads only some of its rows.
int64_t ValueBytes(const proto::VariableLayout& layout, const proto::SliceHome& slice) {
  if (layout.has_dynamic()) return 0;
  int64_t bytes = static_cast<int64_t>(ElementSize(static_cast<DType>(layout.dtype())));
  if (__builtin_mul_overflow(bytes, slice.row_count(), &bytes)) return kMost;
  for (int axis = 1; axis < layout.dims_size(); ++axis) {
    if (__builtin_mul_overflow(bytes, layout.dims(axis), &bytes)) return kMost;
  }
  return bytes;
}

absl::Status TooLittle(const std::string& what) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat(what,
                                ": use more parameter servers (strategy.type parameter_server), a "
                                "smaller model, an optimizer with fewer slots, or give the tasks "
                                "more memory"),
                   proto::CONFIGURATION);
}

}  // namespace

std::map<int, MemoryNeed> MemoryNeeds(absl::Span<const proto::VariableLayout> variables,
                                      absl::Span<const int> homes) {
  std::map<int, MemoryNeed> needs;
  const auto add = [&](int home, int64_t resident, int64_t values) {
    MemoryNeed& need = needs[home];
    need.resident = PlusBytes(need.resident, resident);
    need.values = PlusBytes(need.values, values);
  };
  for (const proto::VariableLayout& layout : variables) {
    // A variable in the memory of a device, such as a GPU, takes no memory of the process.
    if (!layout.device().empty()) continue;
    for (int i = 0; i < layout.slices_size(); ++i) {
      const proto::SliceHome& slice = layout.slices(i);
      const int64_t values = ValueBytes(layout, slice);
      const int64_t resident = PieceBytes(layout, i);
      // A mirrored variable has a copy on each home, whatever its slice says.
      if (!layout.mirrored()) {
        add(static_cast<int>(slice.ps()), resident, values);
        continue;
      }
      for (const int home : homes) add(home, resident, values);
    }
  }
  return needs;
}

absl::Status CheckMemory(const std::map<int, MemoryNeed>& needs, const MemoryLimits& limits) {
  std::vector<std::string> lacking;
  int64_t together = 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const auto& [home, need] : needs) {
    together = PlusBytes(together, need.resident);
    const auto limit = limits.bytes.find(home);
    if (limit == limits.bytes.end()) continue;
    least = std::min(least, limit->second);
    if (static_cast<uint64_t>(need.resident) <= limit->second) continue;
    lacking.push_back(absl::StrCat(RoleName(limits.homes), ":", home, " needs ", need.resident,
                                   " bytes of memory for its variables and their slots, and may "
                                   "have ",
                                   limit->second));
  }
  // If all homes run on one machine, the smallest limit applies to the sum of their needs.
  if (!lacking.empty()) return TooLittle(absl::StrJoin(lacking, "; "));
  if (!limits.shared || static_cast<uint64_t>(together) <= least) return absl::OkStatus();
  return TooLittle(absl::StrCat("the ", needs.size(),
                                " homes of variables are on one machine and "
                                "need ",
                                together,
                                " bytes of memory together for variables and "
                                "slots, and may have ",
                                least));
}

}  // namespace cohort
