#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

using Rooms = std::set<std::string>;

// Who may include whom, as ARCHITECTURE.md section 2 draws it, with what lies below a room added.
const std::map<std::string, Rooms>& AllowedRooms() {
  static const auto* const allowed = new std::map<std::string, Rooms>{
      {"common/base", {}},
      {"common/tensor", {"common/base"}},
      {"common/cluster", {"common/base"}},
      {"common/program", {"common/base", "common/tensor", "proto"}},
      {"common/wire", {"common/base", "common/tensor", "common/cluster", "proto"}},
      {"common/runtime", {"common/base", "common/tensor", "common/program", "proto"}},
      {"common/checkpoint", {"common/base", "common/tensor", "proto"}},
      {"ps_server",
       {"common/base", "common/tensor", "common/cluster", "common/program", "common/wire",
        "common/runtime", "common/checkpoint", "proto"}},
      {"worker/collective",
       {"common/base", "common/tensor", "common/wire", "common/runtime", "proto"}},
      // The module that is loaded when NCCL is asked for: it has nothing of the program in it but
      // the table that it fills.
      {"worker/collective/nccl/backend", {"worker/collective"}},
      {"common/runtime/cuda/backend", {"common/runtime"}},
      {"worker",
       {"common/base", "common/tensor", "common/cluster", "common/program", "common/wire",
        "common/runtime", "common/checkpoint", "proto", "worker/collective"}},
      // Where a worker process becomes a home of variables: the one place that knows both.
      {"worker/home", {"common/base", "common/wire", "proto", "worker", "ps_server"}},
      {"coordinator",
       {"common/base", "common/tensor", "common/cluster", "common/program", "common/wire",
        "common/checkpoint", "proto"}}};
  return *allowed;
}

// A library that stays behind the rooms that wrap it. Tests may use any.
struct Library {
  const char* prefix;
  Rooms rooms;
  bool sources_only;  // its types are not shown in headers
};

const std::vector<Library>& Libraries() {
  static const auto* const libraries = new std::vector<Library>{
      {"grpcpp/", {"common/wire"}, false},
      {"grpc/", {"common/wire"}, false},
      {"spdlog/", {"common/base"}, true},
      {"CLI/", {"common/cluster"}, true},
      {"nlohmann/", {"common/cluster", "coordinator"}, true},
      {"leveldb/", {"common/checkpoint"}, false},
      {"dnnl", {"common/runtime"}, false},
      {"oneapi/", {"common/runtime"}, false},
      {"cuda", {"worker/collective/nccl/backend", "common/runtime/cuda/backend"}, false},
      {"nccl.h", {"worker/collective/nccl/backend"}, true},
      {"onnx/", {"common/program", "common/runtime", "coordinator", "worker"}, false}};
  return *libraries;
}

// "common/base" of "common/base/log.h", "worker" of "worker/ops/pull.cc"; worker/collective is a
// room of its own, on which the worker builds.
std::string RoomOf(const std::string& path) {
  if (absl::StartsWith(path, "worker/home/")) return "worker/home";
  for (const char* const module :
       {"worker/collective/nccl/backend", "common/runtime/cuda/backend"}) {
    if (absl::StartsWith(path, absl::StrCat(module, "/"))) return module;
  }
  if (absl::StartsWith(path, "worker/collective/")) return "worker/collective";
  const size_t first = path.find('/');
  if (first == std::string::npos) return "";
  if (path.compare(0, first, "common") != 0) return path.substr(0, first);
  return path.substr(0, path.find('/', first + 1));
}

bool IsOurs(const std::string& include) {
  const std::string room = RoomOf(include);
  return room == "tests" || room == "proto" || room == "docs" || AllowedRooms().count(room) > 0;
}

std::string Verdict(const SourceFile& file, const std::string& include) {
  const std::string room = RoomOf(file.path);
  const bool free = room == "tests";
  if (IsOurs(include)) {
    const std::string other = RoomOf(include);
    if (other == room || free) return "";
    if (other == "tests") return "nothing but tests includes tests";
    if (room == "docs") return "";
    const auto allowed = AllowedRooms().find(room);
    if (allowed == AllowedRooms().end()) return absl::StrCat(room, " is not a room of the plan");
    if (allowed->second.count(other) > 0) return "";
    if (file.path == "worker/main.cc" && other == "worker/home") return "";
    return absl::StrCat(room, " does not build on ", other);
  }
  for (const Library& library : Libraries()) {
    if (!absl::StartsWith(include, library.prefix)) continue;
    if (!free && library.rooms.count(room) == 0) {
      return absl::StrCat(library.prefix, " does not belong into ", room);
    }
    const bool only_forward = include == "nlohmann/json_fwd.hpp";
    if (library.sources_only && IsHeader(file) && !free && !only_forward) {
      return absl::StrCat(library.prefix, " belongs into .cc files only");
    }
  }
  return "";
}

}  // namespace

Findings CheckIncludes(const SourceFile& file) {
  Findings findings;
  if (!IsCpp(file)) return findings;
  static const std::regex include("(^|\n)#include [\"<]([^\">]+)[\">]");
  for (auto match = std::sregex_iterator(file.text.begin(), file.text.end(), include);
       match != std::sregex_iterator(); ++match) {
    const std::string verdict = Verdict(file, (*match)[2].str());
    if (verdict.empty()) continue;
    const size_t line = LineOf(file.text, static_cast<size_t>(match->position(2)));
    findings.push_back(At(file, line, absl::StrCat("includes ", (*match)[2].str(), ": ", verdict)));
  }
  return findings;
}

}  // namespace cohort::lint
