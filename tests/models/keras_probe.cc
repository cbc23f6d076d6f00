#include "tests/models/keras_probe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/losses/loss_table.h"
#include "coordinator/metrics/metric_table.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

// The file name in front of each message.
constexpr absl::string_view kFile = "case: ";

using ConfigReader = std::function<ConfigReading(const json& config, const std::string& version)>;

json ClassForm(const std::string& name, const json& config) {
  return {{"class_name", name}, {"config", config}};
}

// Returns the names after "(known: " in a message; none if it lists none.
std::vector<std::string> NamesIn(absl::string_view message) {
  constexpr absl::string_view kBegin = "(known: ";
  const size_t begin = message.find(kBegin);
  if (begin == absl::string_view::npos) return {};
  const absl::string_view rest = message.substr(begin + kBegin.size());
  return absl::StrSplit(rest.substr(0, rest.find(')')), ", ");
}

// Sorts the messages by the keys of the config at `path`. Messages about other places only make the
// reading fail.
ConfigReading ReadingOf(const absl::Status& status, const std::string& path) {
  ConfigReading reading;
  reading.ok = status.ok();
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    if (!absl::ConsumePrefix(&line, kFile)) continue;
    if (!absl::ConsumePrefix(&line, absl::StrCat(path, "."))) continue;
    const std::string key(line.substr(0, line.find_first_of(".:")));
    reading.wrong.emplace(key, line.substr(key.size()));
    if (key == kNoSuchKey) reading.known = NamesIn(line);
  }
  reading.wrong.erase(kNoSuchKey);
  return reading;
}

KerasVersion VersionOf(const std::string& version) {
  return version == "k2.15" ? KerasVersion{2, 15} : KerasVersion{3, 15};
}

// Reads a layer; `path` is the place of the probed config in it.
ConfigReading ReadAsLayer(const json& form, const std::string& version, const std::string& path) {
  JsonErrors errors;
  FileNotes notes;
  const LayerContext context{.keras = VersionOf(version),
                             .version_is_known = true,
                             .classes = &LayerClasses(),
                             .notes = &notes};
  const ReadLayerResult read = ReadLayer({"", errors, &form}, context);
  ConfigReading reading = ReadingOf(errors.ToStatus("case"), path);
  reading.depends_on_version = notes.depends_on_version;
  if (!reading.ok || !read.layer.has_value()) return reading;
  reading.canonical = read.layer->config;
  // The shape of an example is not part of the layer.
  if (read.input_shape.has_value()) {
    absl::StrAppend(&reading.canonical, json(*read.input_shape).dump());
  }
  return reading;
}

// Reads a job with these arguments of compile() and a model that this version wrote.
ConfigReading ReadInCompile(const json& compile, const std::string& version,
                            const std::string& path) {
  ModelCase one;
  one.version = version;
  const absl::StatusOr<JobSpec> job = ParseCompileCase(one, compile);
  ConfigReading reading = ReadingOf(job.status(), path);
  if (job.ok()) reading.canonical = JobToJson(*job);
  return reading;
}

// Reads a Dense layer with this form under the key `key`.
ConfigReading ReadInDense(const std::string& key, const json& form, const std::string& version) {
  return ReadAsLayer(ClassForm("Dense", {{"units", 2}, {key, form}}), version,
                     absl::StrCat("config.", key, ".config"));
}

// Returns a reader of the configs of the class `name` of a kind.
ConfigReader ReaderOf(const std::string& kind, const std::string& name) {
  using Version = const std::string&;
  if (kind == "layer") {
    return [=](const json& config, Version version) {
      return ReadAsLayer(ClassForm(name, config), version, "config");
    };
  }
  if (kind == "cell") {
    return [=](const json& config, Version version) {
      return ReadAsLayer(ClassForm("RNN", {{"cell", ClassForm(name, config)}}), version,
                         "config.cell.config");
    };
  }
  if (kind == "loss") {
    return [=](const json& config, Version version) {
      return ReadInCompile({{"loss", ClassForm(name, config)}}, version, "compile.loss.config");
    };
  }
  if (kind == "metric") {
    return [=](const json& config, Version version) {
      return ReadInCompile({{"weighted_metrics", json::array({ClassForm(name, config)})}}, version,
                           "compile.weighted_metrics.0.config");
    };
  }
  if (kind == "optimizer") {
    return [=](const json& config, Version version) {
      return ReadInCompile({{"optimizer", ClassForm(name, config)}}, version,
                           "compile.optimizer.config");
    };
  }
  if (kind == "schedule") {
    return [=](const json& config, Version version) {
      const json rate = ClassForm(name, config);
      return ReadInCompile({{"optimizer", ClassForm("SGD", {{"learning_rate", rate}})}}, version,
                           "compile.optimizer.config.learning_rate.config");
    };
  }
  return [=](const json& config, Version version) {
    return ReadInDense("kernel_" + kind, ClassForm(name, config), version);
  };
}

// Returns the names that the reader of a kind lists beside a class that it does not know.
std::vector<std::string> ListedNames(const std::string& kind) {
  const json unknown = {{"class_name", kNoSuchKey}};
  absl::Status status;
  if (kind == "optimizer" || kind == "schedule") {
    const json form =
        kind == "optimizer" ? unknown : ClassForm("SGD", {{"learning_rate", unknown}});
    status = ParseCompileCase(ModelCase{}, {{"optimizer", form}}).status();
  } else {
    JsonErrors errors;
    FileNotes notes;
    const LayerContext context{.classes = &LayerClasses(), .notes = &notes};
    const json layer = kind == "cell"
                           ? ClassForm("RNN", {{"cell", unknown}})
                           : ClassForm("Dense", {{"units", 2}, {"kernel_" + kind, unknown}});
    ReadLayer({"", errors, &layer}, context);
    status = errors.ToStatus("case");
  }
  return NamesIn(status.message());
}

bool IsOperationClass(const LayerClass& one) {
  return *one.module != '\0' || one.kind == LayerKind::kOperation;
}

std::vector<std::string> NamesOf(const std::string& kind) {
  std::vector<std::string> names;
  if (kind == "layer") {
    for (const LayerClass& one : LayerClasses()) {
      if (!IsOperationClass(one) && one.kind != LayerKind::kModel) names.push_back(one.name);
    }
  } else if (kind == "loss") {
    for (const LossRow& row : LossTable()) names.push_back(row.class_name);
  } else if (kind == "metric") {
    for (const MetricRow& row : MetricTable()) names.push_back(row.class_name);
  } else {
    // Initializers and regularizers are listed under the names of their functions as well.
    for (const std::string& name : ListedNames(kind)) {
      if (absl::ascii_isupper(static_cast<unsigned char>(name[0]))) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::vector<ProbedClass> ProbedClasses(const std::string& kind) {
  std::vector<ProbedClass> classes;
  for (const std::string& name : NamesOf(kind)) {
    classes.push_back({kind, name, ReaderOf(kind, name)});
  }
  return classes;
}

std::vector<std::string> OperationClasses() {
  std::vector<std::string> names;
  for (const LayerClass& one : LayerClasses()) {
    if (IsOperationClass(one)) names.push_back(one.name);
  }
  return names;
}

}  // namespace cohort
