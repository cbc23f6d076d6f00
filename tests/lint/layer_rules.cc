#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

using Rooms = std::vector<std::string>;

using Plans = std::map<std::string, Rooms>;

Plans PlanOfCommon() {
  return {
      {"proto", {}},
      {"common/base", {}},
      {"common/tensor", {"common/base"}},
      {"common/cluster", {"common/base"}},
      {"common/formats", {"common/tensor"}},
      {"common/formats/hdf5", {"common/formats"}},
      {"common/formats/weights", {"common/formats/hdf5", "common/checkpoint"}},
      {"common/records/columns", {"common/base"}},
      {"common/records/unpacked", {"common/base"}},
      {"common/records", {"common/records/unpacked", "proto"}},
      {"common/records/csv", {"common/records/columns"}},
      {"common/records/examples", {"common/records/columns", "common/tensor"}},
      {"common/preprocessing", {"common/base", "proto"}},
      {"common/images", {"common/tensor"}},
      {"common/program/ops", {}},
      {"common/program", {"common/program/ops", "common/tensor", "proto"}},
      {"common/checkpoint", {"common/tensor", "proto"}},
      {"common/wire", {"common/tensor", "proto"}},
      {"common/wire/frames", {"common/wire", "common/cluster"}},
      {"common/wire/grpc", {"common/wire/frames"}},
      {"common/wire/route", {"common/wire/grpc"}},
      {"common/task", {"common/wire", "common/cluster"}},
      {"common/runtime/kernel", {"common/program"}},
      {"common/runtime/update/rules", {"common/runtime/kernel"}},
      {"common/runtime/cuda/launches", {"common/runtime/update/rules"}},
      {"common/runtime/cuda", {"common/runtime/cuda/launches"}},
      {"common/runtime/run", {"common/runtime/cuda"}},
      {"common/runtime/update", {"common/runtime/cuda"}},
      {"common/runtime/kernels", {"common/runtime/kernel"}},
      {"common/runtime/kernels/reference", {"common/runtime/kernels"}},
      {"common/runtime/kernels/cpu", {"common/runtime/kernels/reference", "common/runtime/run"}},
      {"common/runtime/kernels/cuda", {"common/runtime/kernels", "common/runtime/run"}}};
}

Plans PlanOfServersAndWorkers() {
  return {{"ps_server/table", {"common/runtime/update"}},
          {"ps_server/slice", {"ps_server/table", "common/wire"}},
          {"ps_server/checkpoint", {"ps_server/slice", "common/checkpoint"}},
          {"ps_server/service", {"ps_server/checkpoint", "common/task"}},
          {"ps_server", {"ps_server/service", "common/wire/route"}},

          {"worker/data/columns",
           {"common/records/columns", "common/preprocessing", "common/images", "proto"}},
          {"worker/data",
           {"worker/data/columns", "common/records", "common/records/csv",
            "common/records/examples", "common/formats"}},
          {"worker/ops", {"common/runtime/kernels", "common/runtime/run"}},
          {"worker/ps_client", {"common/runtime/kernel", "common/task"}},
          {"worker/collective", {"common/runtime/kernel", "common/wire"}},
          {"worker/collective/plan", {"worker/collective"}},
          {"worker/collective/lanes", {"worker/collective/plan"}},
          {"worker/collective/shm", {"worker/collective", "common/wire/frames"}},
          {"worker/collective/nccl", {"worker/collective/lanes"}},
          {"worker/devices",
           {"common/runtime/kernels/cpu", "common/runtime/kernels/cuda", "common/runtime/update",
            "common/cluster", "worker/collective/nccl"}},
          {"worker/replicas", {"worker/ops", "worker/ps_client", "worker/collective/nccl"}},
          {"worker/gang", {"worker/replicas", "worker/collective/shm", "worker/collective/nccl"}},
          {"worker/program", {"worker/gang", "worker/devices"}},
          {"worker/step", {"worker/program", "worker/data"}},
          {"worker/service", {"worker/step"}},
          // Where a worker process becomes a home of variables: the one place that knows both.
          {"worker/variables_home", {"worker/service", "ps_server"}},
          {"worker", {"worker/variables_home"}}};
}

Plans PlanOfCoordinator() {
  return {
      {"coordinator/json", {"common/cluster"}},
      {"coordinator/layers", {"coordinator/json", "common/program"}},
      {"coordinator/layers/classes", {"coordinator/layers"}},
      {"coordinator/network", {"coordinator/layers/classes"}},
      {"coordinator/inspect", {"coordinator/job", "common/formats/weights"}},
      {"coordinator/records",
       {"coordinator/inspect", "common/records", "common/records/csv", "proto"}},
      {"coordinator/losses", {"coordinator/json", "common/program"}},
      {"coordinator/metrics", {"coordinator/losses"}},
      {"coordinator/job",
       {"coordinator/network", "coordinator/metrics", "common/formats/weights",
        "common/preprocessing"}},
      {"coordinator/model", {"coordinator/job"}},
      {"coordinator/strategy", {"coordinator/model", "common/wire"}},
      {"coordinator/cluster", {"common/task", "common/preprocessing"}},
      {"coordinator/homes", {"coordinator/cluster", "common/checkpoint", "common/program"}},
      {"coordinator/schedule", {"coordinator/cluster"}},
      {"coordinator/recovery", {"coordinator/homes", "coordinator/schedule"}},
      {"coordinator/api",
       {"coordinator/recovery", "coordinator/strategy", "coordinator/local", "common/wire/route",
        "common/records"}},
      {"coordinator/local", {"common/wire", "common/cluster"}},
      {"coordinator/train", {"coordinator/api", "common/formats/weights"}},
      {"coordinator/members", {"coordinator/homes", "coordinator/schedule"}},
      {"coordinator/daemon", {"coordinator/train", "coordinator/members"}},
      {"coordinator",
       {"coordinator/daemon", "coordinator/inspect", "coordinator/records", "common/wire/route"}}};
}

// Lists what each room builds on, as docs/architecture.dot draws the house. A room may use what
// lies below as well. A folder is a room of its own, or belongs to the nearest room above it.
const Plans& Plan() {
  static const auto* const plan = [] {
    auto* const all = new Plans(PlanOfCommon());
    all->merge(PlanOfServersAndWorkers());
    all->merge(PlanOfCoordinator());
    return all;
  }();
  return *plan;
}

// The modules that are loaded when CUDA or NCCL is asked for: they have nothing of the program in
// them but the tables that they fill.
const std::map<std::string, Rooms>& Modules() {
  static const auto* const modules = new std::map<std::string, Rooms>{
      {"worker/collective/nccl/backend", {"worker/collective/nccl"}},
      {"common/runtime/cuda/backend",
       {"common/runtime/cuda", "common/runtime/cuda/launches", "common/runtime/update/rules"}}};
  return *modules;
}

void AddWithWhatLiesBelow(const std::string& room, std::set<std::string>& all) {
  for (const std::string& below : Plan().at(room)) {
    if (all.insert(below).second) AddWithWhatLiesBelow(below, all);
  }
}

// Returns the rooms that files of this one may include.
std::set<std::string> MayInclude(const std::string& room) {
  const auto module = Modules().find(room);
  if (module != Modules().end()) return {module->second.begin(), module->second.end()};
  std::set<std::string> all;
  AddWithWhatLiesBelow(room, all);
  return all;
}

// A library that stays behind the rooms that wrap it, each with the folders below it. Tests may use
// any.
struct Library {
  const char* prefix;
  Rooms rooms;
  bool sources_only;  // its types are not shown in headers
};

const std::vector<Library>& Libraries() {
  static const auto* const libraries = new std::vector<Library>{
      {"grpcpp/", {"common/wire/grpc"}, false},
      {"grpc/", {"common/wire/grpc"}, false},
      {"spdlog/", {"common/base"}, true},
      {"CLI/", {"common/cluster"}, true},
      {"nlohmann/", {"common/cluster", "common/formats", "coordinator"}, true},
      {"zip.h", {"common/formats"}, true},
      {"zlib.h", {"common/formats", "common/records/unpacked", "worker/data"}, true},
      {"farmhash.h", {"common/preprocessing"}, true},
      {"jpeglib.h", {"common/images"}, true},
      {"png.h", {"common/images"}, true},
      {"leveldb/", {"common/checkpoint"}, false},
      {"dnnl", {"common/runtime/kernels/cpu"}, false},
      {"oneapi/", {"common/runtime/kernels/cpu"}, false},
      {"cuda", {"worker/collective/nccl/backend", "common/runtime/cuda/backend"}, false},
      {"nccl.h", {"worker/collective/nccl/backend"}, true},
      {"onnx/", {"common/program", "common/runtime", "coordinator", "worker"}, false}};
  return *libraries;
}

const std::regex& IncludeLine() {
  static const std::regex include("(^|\n)#include [\"<]([^\">]+)[\">]");
  return include;
}

bool IsInOneOf(const Rooms& rooms, const std::string& room) {
  return std::any_of(rooms.begin(), rooms.end(), [&](const std::string& one) {
    return room == one || absl::StartsWith(room, absl::StrCat(one, "/"));
  });
}

// Returns the nearest room above the file: "common/base" of "common/base/log.h". Empty: none.
std::string RoomOf(const std::string& path) {
  for (size_t end = path.rfind('/'); end != std::string::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    const std::string folder = path.substr(0, end);
    if (Plan().count(folder) > 0 || Modules().count(folder) > 0) return folder;
  }
  return path.substr(0, path.find('/'));
}

bool IsOurs(const std::string& include) {
  const std::string room = RoomOf(include);
  return room == "tests" || room == "proto" || room == "docs" || Plan().count(room) > 0 ||
         Modules().count(room) > 0;
}

std::string Verdict(const SourceFile& file, const std::string& include) {
  const std::string room = RoomOf(file.path);
  const bool free = room == "tests";
  if (IsOurs(include)) {
    const std::string other = RoomOf(include);
    if (other == room || free) return "";
    if (other == "tests") return "nothing but tests includes tests";
    if (room == "docs") return "";
    if (Plan().count(room) == 0 && Modules().count(room) == 0) {
      return absl::StrCat(room, " is not a room of the plan");
    }
    if (MayInclude(room).count(other) > 0) return "";
    return absl::StrCat(room, " does not build on ", other);
  }
  for (const Library& library : Libraries()) {
    if (!absl::StartsWith(include, library.prefix)) continue;
    if (!free && !IsInOneOf(library.rooms, room)) {
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

const std::set<std::string>& BehindTheApi() {
  static const auto* const headers = new std::set<std::string>{
      "coordinator/api/coordinator_impl.h", "coordinator/api/coordinator_parts.h",
      "coordinator/cluster/cluster.h",      "coordinator/homes/ps_control.h",
      "coordinator/homes/shard_transfer.h", "coordinator/job/job_spec.h",
      "coordinator/local/child_process.h",  "coordinator/recovery/copies.h",
      "coordinator/recovery/recovery.h",    "coordinator/schedule/scheduler.h"};
  return *headers;
}

Findings CheckIncludes(const SourceFile& file) {
  Findings findings;
  if (!IsCpp(file)) return findings;
  for (auto match = std::sregex_iterator(file.text.begin(), file.text.end(), IncludeLine());
       match != std::sregex_iterator(); ++match) {
    const std::string verdict = Verdict(file, (*match)[2].str());
    if (verdict.empty()) continue;
    const size_t line = LineOf(file.text, static_cast<size_t>(match->position(2)));
    findings.push_back(At(file, line, absl::StrCat("includes ", (*match)[2].str(), ": ", verdict)));
  }
  return findings;
}

Findings CheckApi(const std::vector<SourceFile>& files) {
  std::map<std::string, const SourceFile*> headers;
  for (const SourceFile& file : files) headers[file.path] = &file;
  Findings findings;
  std::vector<std::string> waiting = {"coordinator/api/cohort.h"};
  std::set<std::string> reached = {waiting.front()};
  while (!waiting.empty()) {
    const auto header = headers.find(waiting.back());
    waiting.pop_back();
    if (header == headers.end()) continue;  // of another library, or made by protoc
    const SourceFile& file = *header->second;
    for (auto match = std::sregex_iterator(file.text.begin(), file.text.end(), IncludeLine());
         match != std::sregex_iterator(); ++match) {
      const std::string included = (*match)[2].str();
      if (BehindTheApi().count(included) > 0) {
        const size_t line = LineOf(file.text, static_cast<size_t>(match->position(2)));
        findings.push_back(At(file, line,
                              absl::StrCat("includes ", included,
                                           ", so coordinator/api/cohort.h shows it to programs")));
      } else if (reached.insert(included).second) {
        waiting.push_back(included);
      }
    }
  }
  return findings;
}

}  // namespace cohort::lint
