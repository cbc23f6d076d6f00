#include "coordinator/strategy/plan_text.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

// If the fullest server has more than this multiple of the mean, the text suggests a better plan.
constexpr double kEvenEnough = 1.15;

// The number of pieces on one server, and the sums of their bytes and loads.
struct Server {
  int64_t pieces = 0;
  int64_t bytes = 0;
  int64_t load = 0;
};

struct Summary {
  std::map<int, Server> servers;  // sums by task index, also of servers without a piece
  Server all;
  double max_over_mean = 1;
  bool measured = false;  // whether measured loads decided the placement
  Role homes = Role::kPs;
};

// Returns whether each home has a copy of every variable.
bool IsMirrored(const Plan& plan) {
  return !plan.variables.empty() && plan.variables.front().mirrored();
}

std::string ReplicasText(const Plan& plan, size_t workers) {
  const auto& devices = plan.train_step.replicas().devices();
  return absl::StrCat(IsMirrored(plan) ? absl::StrCat(workers, " workers, in each ") : "",
                      devices.size(), devices.size() == 1 ? " replica on " : " replicas on ",
                      absl::StrJoin(devices, ", "));
}

// Adds up the pieces of each server, and of all servers together.
Summary Summarise(const Plan& plan, const StrategySpec& spec, const ClusterShape& cluster) {
  Summary summary;
  const std::vector<int>& homes = plan.homes == Role::kPs ? cluster.ps : cluster.workers;
  // Servers without a piece get an entry as well.
  for (const int index : homes) summary.servers[index];
  for (const PiecePlacement& piece : plan.placement) {
    std::vector<Server*> holders = {&summary.all};
    for (auto& [index, server] : summary.servers) {
      // A mirrored piece counts for every home, because each home has a copy.
      if (IsMirrored(plan) || index == static_cast<int>(piece.ps)) holders.push_back(&server);
    }
    for (Server* server : holders) {
      server->pieces += 1;
      server->bytes += piece.bytes;
      server->load += piece.load;
    }
  }
  summary.homes = plan.homes;
  summary.measured =
      plan.homes == Role::kPs && spec.placement == "measured" && !cluster.loads.empty();
  summary.max_over_mean = MaxOverMean(
      plan.placement, homes, summary.measured ? &PiecePlacement::load : &PiecePlacement::bytes);
  return summary;
}

// Returns the first lines of the text: a summary and, if bytes are placed unevenly, a hint.
std::string Heading(const Plan& plan, const StrategySpec& spec, const Summary& summary) {
  if (plan.homes != Role::kPs) {
    return absl::StrFormat("strategy %s: %s; %d variables, %d bytes with slots\n", spec.type,
                           ReplicasText(plan, summary.servers.size()), plan.variables.size(),
                           summary.all.bytes);
  }
  std::string text = absl::StrFormat(
      "placement %s: %d variables in %d pieces on %d ps, %d bytes with slots, "
      "max/mean %.3f of %s\n",
      spec.placement, plan.variables.size(), summary.all.pieces, summary.servers.size(),
      summary.all.bytes, summary.max_over_mean, summary.measured ? "load" : "bytes");
  if (spec.placement == "measured" && !summary.measured) {
    absl::StrAppend(&text, "nothing was measured yet, so it is by bytes\n");
  }
  const auto largest = std::max_element(
      plan.placement.begin(), plan.placement.end(),
      [](const PiecePlacement& a, const PiecePlacement& b) { return a.bytes < b.bytes; });
  // The hints are about bytes. So there is none if measured loads decided the placement.
  if (summary.max_over_mean <= kEvenEnough || summary.measured) return text;
  const int64_t mean = summary.all.bytes / static_cast<int64_t>(summary.servers.size());
  if (largest->bytes > mean) {
    absl::StrAppend(&text, largest->name, " alone has ", largest->bytes,
                    " bytes, more than the mean; cut it with strategy.partitioner, along axis 0\n");
  } else if (spec.placement == "round_robin") {
    absl::StrAppend(&text, "strategy.placement \"bytes\" would share them out more evenly\n");
  }
  return text;
}

std::string ToText(const Plan& plan, const StrategySpec& spec, const Summary& summary) {
  std::string text = Heading(plan, spec, summary);
  for (const std::string& note : plan.notes) absl::StrAppend(&text, note, "\n");
  for (const auto& [index, server] : summary.servers) {
    absl::StrAppendFormat(&text, "  %s:%-3d %14d bytes %6d pieces", RoleName(summary.homes), index,
                          server.bytes, server.pieces);
    if (summary.measured) absl::StrAppendFormat(&text, " %14d load", server.load);
    absl::StrAppend(&text, "\n");
  }
  // All names are padded to the width of the longest one, so that columns line up.
  size_t width = 0;
  for (const PiecePlacement& piece : plan.placement) width = std::max(width, piece.name.size());
  for (const PiecePlacement& piece : plan.placement) {
    absl::StrAppendFormat(
        &text, "%-*s  %s %d+%d, %d bytes -> %s:%d  (%s)\n", static_cast<int>(width), piece.name,
        piece.dynamic ? "keys of buckets" : "rows", piece.rows.begin, piece.rows.count, piece.bytes,
        RoleName(summary.homes), piece.ps, piece.reason);
  }
  return text;
}

std::string ToJson(const Plan& plan, const StrategySpec& spec, const Summary& summary) {
  ordered_json servers = ordered_json::array();
  for (const auto& [index, server] : summary.servers) {
    servers.push_back({{RoleName(plan.homes), index},
                       {"pieces", server.pieces},
                       {"bytes", server.bytes},
                       {"load", server.load}});
  }
  ordered_json pieces = ordered_json::array();
  for (const PiecePlacement& piece : plan.placement) {
    pieces.push_back({{"name", piece.name},
                      {"row_begin", piece.rows.begin},
                      {"row_count", piece.rows.count},
                      {"bytes", piece.bytes},
                      {"load", piece.load},
                      {RoleName(plan.homes), piece.ps},
                      {"reason", piece.reason}});
  }
  const auto& devices = plan.train_step.replicas().devices();
  const std::vector<std::string> replicas(devices.begin(), devices.end());
  const ordered_json whole = {{"strategy", spec.type},
                              {"replicas", replicas},
                              {"notes", plan.notes},
                              {"placement", spec.placement},
                              {"measured", summary.measured},
                              {"bytes", summary.all.bytes},
                              {"max_over_mean", summary.max_over_mean},
                              {"servers", std::move(servers)},
                              {"pieces", std::move(pieces)}};
  return whole.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string PlanToText(const Plan& plan, const StrategySpec& spec, const ClusterShape& cluster,
                       PlanFormat format) {
  const Summary summary = Summarise(plan, spec, cluster);
  return format == PlanFormat::kText ? ToText(plan, spec, summary) : ToJson(plan, spec, summary);
}

}  // namespace cohort
