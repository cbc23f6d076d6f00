// Examples per second of a wide-and-deep click model with 26 tables, for several numbers of
// workers, with where the time of a step goes, beside the arithmetic bound of its matrix products.
// The workers and parameter servers are processes of this host.

#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/train/trainer.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/bench/sgemm_rate.h"

namespace cohort::bench {

namespace {

using nlohmann::json;

constexpr int kTables = 26, kIntegers = 13, kDeep1 = 256, kDeep2 = 128, kClasses = 2;

struct Sizes {
  int rows = 0;  // of all tables
  int dim = 0;
  int batch = 0;
  int batches = 0;  // of an epoch
  int epochs = 0;
  int ps = 0;
  int in_flight = 0;
  int features() const { return kIntegers + kTables * dim; }
};

json Layer(const char* class_name, const std::string& name, json config, const json& given) {
  config["name"] = name;
  return {{"class_name", class_name}, {"config", std::move(config)}, {"inbound_nodes", given}};
}

json Tensor(const std::string& layer) { return json::array({layer, 0, 0}); }
json From(const std::vector<json>& tensors) { return json::array({json(tensors)}); }

// As many rows as Criteo's column has values, and the largest columns share what is left.
std::vector<int> RowsOfTables(int total) {
  constexpr int kValues[kTables] = {1460,  583,     10131227, 2202608, 305,     24,   12517,
                                    633,   3,       93145,    5683,    8351593, 3194, 27,
                                    14992, 5461306, 10,       5652,    2173,    4,    7046547,
                                    18,    15,      286181,   105,     142572};
  int low = 1, high = 20000000;
  const auto sum = [&](int most) {
    int64_t rows = 0;
    for (const int values : kValues) rows += std::min(values, most);
    return rows;
  };
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (sum(middle) <= total) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  std::vector<int> rows;
  for (const int values : kValues) rows.push_back(std::min(values, low));
  return rows;
}

json Model(const Sizes& sizes, const std::vector<int>& rows) {
  std::vector<json> layers, inputs = {Tensor("dense")}, features = {Tensor("dense")};
  layers.push_back(Layer("InputLayer", "dense",
                         {{"batch_shape", json::array({nullptr, kIntegers})}}, json::array()));
  for (int i = 0; i < kTables; ++i) {
    const std::string column = absl::StrCat("C", i + 1), table = absl::StrCat("table_", i + 1);
    layers.push_back(Layer("InputLayer", column,
                           {{"batch_shape", json::array({nullptr})}, {"dtype", "int32"}},
                           json::array()));
    layers.push_back(Layer("Embedding", table,
                           {{"input_dim", rows[static_cast<size_t>(i)]}, {"output_dim", sizes.dim}},
                           From({Tensor(column)})));
    inputs.push_back(Tensor(column));
    features.push_back(Tensor(table));
  }
  const auto dense = [&](const std::string& name, int units, const char* activation,
                         const std::string& given) {
    layers.push_back(Layer("Dense", name, {{"units", units}, {"activation", activation}},
                           From({Tensor(given)})));
  };
  layers.push_back(Layer("Concatenate", "wide", json::object(), From(features)));
  dense("deep_1", kDeep1, "relu", "wide");
  dense("deep_2", kDeep2, "relu", "deep_1");
  layers.push_back(
      Layer("Concatenate", "both", json::object(), From({Tensor("wide"), Tensor("deep_2")})));
  dense("click", kClasses, "softmax", "both");
  return {{"class_name", "Functional"},
          {"config",
           {{"layers", layers}, {"input_layers", inputs}, {"output_layers", Tensor("click")}}}};
}

std::string JobText(const Sizes& sizes) {
  const std::vector<int> rows = RowsOfTables(sizes.rows);
  const json log = {
      {"class_name", "SyntheticClickLog"},
      {"config",
       {{"seed", 1}, {"count", int64_t{sizes.batch} * sizes.batches}, {"hash_buckets", rows}}}};
  const json optimizer = {{"class_name", "Adagrad"}, {"config", {{"learning_rate", 0.05}}}};
  const json partitioner = {{"class_name", "MinSizePartitioner"},
                            {"config", {{"max_shards", sizes.ps}}}};
  const json job = {
      {"name", "embedding"},
      {"seed", 1},
      {"model", Model(sizes, rows)},
      {"compile", {{"optimizer", optimizer}, {"loss", "sparse_categorical_crossentropy"}}},
      {"data", {{"train", log}}},
      {"fit",
       {{"epochs", sizes.epochs},
        {"batch_size", sizes.batch},
        {"closures_in_flight", sizes.in_flight}}},
      {"strategy", {{"partitioner", partitioner}}}};
  return job.dump();
}

// Forward, gradients of weights, gradients of inputs.
double FlopsPerStep(const Sizes& sizes) {
  const double features = sizes.features();
  return 3 * 2.0 * sizes.batch *
         (features * kDeep1 + kDeep1 * kDeep2 + (features + kDeep2) * kClasses);
}

absl::Status RunOnce(const Sizes& sizes, int workers, TransportKind transport) {
  ASSIGN_OR_RETURN(const JobSpec job, ParseJob(JobText(sizes), "embedding", {}));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::max(1, cores / workers);
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run,
                   LocalRun::Start({sizes.ps, workers, sizes.in_flight, transport, threads}));
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(run->world(), run->waiter(), job.data, {}, job.seed));
  Trainer trainer(run->world(), run->waiter(), run->coordinator(), job, std::move(sources));
  ASSIGN_OR_RETURN(const TrainSummary summary, trainer.Run());
  const absl::Duration time = summary.train_time - summary.epoch_times.front();
  const double steps = static_cast<double>(sizes.batches) * (sizes.epochs - 1);
  const double sgemm = SgemmRate({sizes.batch, kDeep1, sizes.features()}, cores);
  const proto::StepTimes& times = summary.closures.times;
  const double done = std::max<double>(1, static_cast<double>(summary.closures.done));
  const double all_steps = std::max<double>(1, static_cast<double>(summary.steps));
  const auto mean_ms = [&](int64_t microseconds) {
    return static_cast<double>(microseconds) * 1e-3 / done;
  };
  Figure figure;
  figure.bench = "embedding";
  figure.name =
      absl::StrCat(TransportKindName(transport), "/tables=26/rows=", sizes.rows, "/dim=", sizes.dim,
                   "/batch=", sizes.batch, "/ps=", sizes.ps, "/workers=", workers);
  figure.value = steps * sizes.batch / absl::ToDoubleSeconds(time);
  figure.unit = "examples/s";
  figure.reference = "arithmetic bound: flops of a step over SGEMM's rate on all cores at once";
  figure.reference_value = sgemm / FlopsPerStep(sizes) * sizes.batch;
  figure.more = {
      {"input_ms", mean_ms(times.input_us())},
      {"pull_ms", mean_ms(times.pull_us())},
      {"queue_ms", mean_ms(times.queue_us())},
      {"compute_ms", mean_ms(times.compute_us())},
      {"push_ms", mean_ms(times.push_us())},
      {"steps_per_second", steps / absl::ToDoubleSeconds(time)},
      {"steps", steps},
      {"sgemm_gflops_all_cores", sgemm * 1e-9},
      {"mflop_per_step", FlopsPerStep(sizes) * 1e-6},
      {"pulls_per_step_and_ps", static_cast<double>(summary.ps.pulls()) / all_steps / sizes.ps},
      {"bytes_pulled_per_step", static_cast<double>(summary.ps.bytes_out()) / all_steps},
      {"bytes_pushed_per_step", static_cast<double>(summary.ps.bytes_in()) / all_steps},
      {"resident_ps_bytes", static_cast<double>(summary.ps.resident_bytes())},
      {"train_loss", *summary.train_loss}};
  Print(figure);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  Sizes sizes;
  const std::pair<const char*, int*> numbers[] = {
      {"rows", &sizes.rows},          {"dim", &sizes.dim},       {"batch", &sizes.batch},
      {"batches", &sizes.batches},    {"epochs", &sizes.epochs}, {"ps", &sizes.ps},
      {"in_flight", &sizes.in_flight}};
  for (const auto& [name, number] : numbers) {
    ASSIGN_OR_RETURN(*number, options.Number(name));
    if (*number < 1) return absl::InvalidArgumentError(absl::StrCat("--", name, " is 0"));
  }
  if (sizes.epochs < 2) {
    return absl::InvalidArgumentError("--epochs: the first is a warm-up, so 2 or more");
  }
  if (options.Text("print_job") == "true") {
    std::puts(JobText(sizes).c_str());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const TransportKind transport, TransportKindFromName(options.Text("transport")));
  for (const absl::string_view text : absl::StrSplit(options.Text("workers"), ',')) {
    int workers = 0;
    if (!absl::SimpleAtoi(text, &workers) || workers < 1) {
      return absl::InvalidArgumentError(absl::StrCat("--workers: '", text, "' is no number"));
    }
    RETURN_IF_ERROR(RunOnce(sizes, workers, transport));
  }
  return absl::OkStatus();
}

}  // namespace

Command EmbeddingBench() {
  return {"embedding",
          "Examples per second of a click model whose 26 tables lie on the parameter servers",
          {{"rows", "10000000",
            "of all tables together; small columns of Criteo's have their own size"},
           {"dim", "16", "of a row"},
           {"batch", "4096", "examples of a step"},
           {"batches", "32", "steps of an epoch"},
           {"epochs", "4", "the first, in which workers make the data, is not timed"},
           {"ps", "2", "parameter servers"},
           {"workers", "1,2,4", "numbers of workers, one run for each"},
           {"transport", "auto", "auto: shared memory between the processes; tcp: frames over TCP"},
           {"in_flight", "2", "closures in flight per worker"},
           {"print_job", "false", "true: prints the job file and measures nothing"}},
          Run};
}

}  // namespace cohort::bench
