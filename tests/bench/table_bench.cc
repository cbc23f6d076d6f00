// Pulls and Adagrad pushes of a dense and of a dynamic table in this process, on one thread, beside
// the limit: the same rows, as many bytes of each, from a flat array whose rows need no finding.
// Then how much memory a dynamic table takes whose ids have no end.

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_tables.h"
#include "tests/support/sequence_rng.h"

namespace cohort::bench {

namespace {

constexpr double kZipfExponent = 1.1;
constexpr size_t kBatches = 200;  // in a repeat
constexpr size_t kMiB = size_t{1} << 20;

// The row of rank r under the exponent s has a probability of about r^-s: the continuous
// distribution, inverted.
uint64_t ZipfRank(double uniform, uint64_t rows) {
  const double power = 1 - kZipfExponent;
  const double most = std::pow(static_cast<double>(rows) + 1, power) - 1;
  const double rank = std::pow(1 + uniform * most, 1 / power);
  return std::min(static_cast<uint64_t>(rank) - 1, rows - 1);
}

struct Work {
  std::vector<RowBatch> batches;
  size_t count = 0;
};

// What a worker asks for: rows in any order, some of them more than once; and what it pushes: each
// row once, in ascending order.
enum class Order { kOfRequest, kAscending };

Work MakeWork(const TableSizes& sizes, bool zipf, Order order) {
  SequenceRng rng(7);
  Work work;
  for (size_t b = 0; b < kBatches; ++b) {
    std::vector<int64_t> rows(sizes.batch);
    for (int64_t& row : rows) {
      row =
          static_cast<int64_t>(zipf ? ZipfRank(rng.Uniform(), sizes.rows) : rng.Below(sizes.rows));
    }
    if (order == Order::kAscending) {
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    work.count += rows.size();
    work.batches.push_back(BatchOf(std::move(rows)));
  }
  return work;
}

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Per second of this thread's processor time, so that it does not count how often a busy machine
// takes the core away.
double Rate(size_t rows, const std::function<void()>& run) {
  const double start = ThreadSeconds();
  run();
  return static_cast<double>(rows) / (ThreadSeconds() - start) / 1e6;
}

// Rows 0 to `count`, or as many that nobody has seen, from `first` on.
void PushEach(DynamicBenchTable& table, const TableSizes& sizes, size_t first, size_t count) {
  const std::vector<float> zeros(sizes.batch * sizes.width);
  for (size_t done = 0; done < count; done += sizes.batch) {
    std::vector<int64_t> rows(std::min(sizes.batch, count - done));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(first + done + i);
    table.Push(BatchOf(rows), absl::MakeConstSpan(zeros).first(rows.size() * sizes.width));
  }
}

void PrintOverhead(const DynamicBenchTable& table) {
  const RowTableUse use = table.Use();
  const double rows = static_cast<double>(use.rows);
  const double payload = static_cast<double>(use.payload_bytes) / rows;
  Print({"table",
         "overhead",
         static_cast<double>(use.row_bytes + use.index_bytes) / rows - payload,
         "B/row",
         "24 B + 15 %",
         24 + 0.15 * payload,
         {{"index_bytes", static_cast<double>(use.index_bytes) / rows}, {"payload", payload}}});
}

// What the hold of a checkpoint waits for, on all processors.
void PrintSave(const DynamicBenchTable& table) {
  const RowTableUse use = table.Use();
  const double bytes = static_cast<double>(use.payload_bytes);
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = absl::Now();
    table.Save();
    rates.push_back(static_cast<double>(use.rows) * 1e-6 /
                    absl::ToDoubleSeconds(absl::Now() - start));
  }
  const double rate = Median(rates);
  Print({"table",
         "dynamic/save",
         rate,
         "Mrow/s",
         "",
         0,
         {{"GB/s", rate * bytes / static_cast<double>(use.rows) / 1e3}}});
}

struct Named {
  std::string name;
  BenchTable* table;
  std::vector<double> rates = {};
};

// All by turns, so that other load on the machine meets each; the last one is the limit.
void Compare(const std::string& name, int repeats, size_t rows, std::vector<Named> tables,
             const std::function<void(BenchTable&)>& run) {
  for (int i = 0; i < repeats; ++i) {
    for (Named& one : tables) one.rates.push_back(Rate(rows, [&] { run(*one.table); }));
  }
  const double limit = Median(tables.back().rates);
  tables.pop_back();
  for (const Named& one : tables) {
    const auto [least, most] = std::minmax_element(one.rates.begin(), one.rates.end());
    Print({"table",
           absl::StrCat(one.name, "/", name),
           Median(one.rates),
           "Mrow/s",
           "flat array",
           limit,
           {{"least", *least}, {"most", *most}}});
  }
}

void ComparePulls(const TableSizes& sizes, bool zipf, int repeats,
                  const std::vector<Named>& tables) {
  const Work work = MakeWork(sizes, zipf, Order::kOfRequest);
  std::vector<float> out(sizes.batch * sizes.width);
  Compare(absl::StrCat("pull/", zipf ? "zipf" : "uniform"), repeats, work.count, tables,
          [&](BenchTable& table) {
            for (const RowBatch& batch : work.batches) table.Pull(batch, absl::MakeSpan(out));
          });
}

void ComparePushes(const TableSizes& sizes, bool zipf, int repeats,
                   const std::vector<Named>& tables) {
  const Work work = MakeWork(sizes, zipf, Order::kAscending);
  const std::vector<float> gradients(sizes.batch * sizes.width, 0.01f);
  Compare(absl::StrCat("push/adagrad/", zipf ? "zipf" : "uniform"), repeats, work.count, tables,
          [&](BenchTable& table) {
            for (const RowBatch& batch : work.batches) {
              table.Push(batch,
                         absl::MakeConstSpan(gradients).first(batch.rows.size() * sizes.width));
            }
          });
}

absl::Status CompareRates(const TableSizes& sizes, int repeats) {
  ASSIGN_OR_RETURN(const auto dynamic, DynamicBenchTable::Make(sizes.width, RowPolicy()));
  Print({"table", "dynamic/create",
         Rate(sizes.rows, [&] { PushEach(*dynamic, sizes, 0, sizes.rows); }), "Mrow/s"});
  PrintOverhead(*dynamic);
  PrintSave(*dynamic);
  ASSIGN_OR_RETURN(const auto dense, MakeDenseTable(sizes));
  ASSIGN_OR_RETURN(const auto flat, MakeFlatTable(sizes));
  const std::vector<Named> tables = {
      {"dense", dense.get()}, {"dynamic", dynamic.get()}, {"flat", flat.get()}};
  for (const bool zipf : {false, true}) {
    ComparePulls(sizes, zipf, repeats, tables);
    ComparePushes(sizes, zipf, repeats, tables);
  }
  return absl::OkStatus();
}

// Of this process.
double ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(getpagesize()) / static_cast<double>(kMiB);
}

// Five times as many new ids as the limit of memory has room for.
absl::Status MeasureMemory(const TableSizes& sizes, int limit_mib) {
  RowPolicy policy;
  policy.bytes_max = static_cast<size_t>(limit_mib) * kMiB;
  const double before = ResidentMiB();
  ASSIGN_OR_RETURN(const auto table, DynamicBenchTable::Make(sizes.width, policy));
  const size_t ids = 5 * policy.bytes_max / (2 * sizes.width * sizeof(float));
  double most = 0;
  for (size_t first = 0; first < ids; first += sizes.batch) {
    PushEach(*table, sizes, first, sizes.batch);
    most = std::max(most, ResidentMiB() - before);
  }
  Print({"table",
         "dynamic/resident",
         most,
         "MiB, at most",
         "limit + 5 %",
         1.05 * limit_mib,
         {{"ids", static_cast<double>(ids)},
          {"limit", static_cast<double>(limit_mib)},
          {"rows", static_cast<double>(table->Use().rows)}}});
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int rows, options.Number("rows"));
  ASSIGN_OR_RETURN(const int width, options.Number("dim"));
  ASSIGN_OR_RETURN(const int batch, options.Number("batch"));
  ASSIGN_OR_RETURN(const int limit, options.Number("limit_mib"));
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  if (rows < 1 || width < 1 || batch < 1 || limit < 1 || repeats < 1) {
    return absl::InvalidArgumentError(
        "--rows, --dim, --batch, --limit_mib and --repeats are 1 or more");
  }
  const TableSizes sizes = {static_cast<size_t>(rows), static_cast<size_t>(width),
                            static_cast<size_t>(batch)};
  RETURN_IF_ERROR(MeasureMemory(sizes, limit));
  return CompareRates(sizes, repeats);
}

}  // namespace

Command TableBench() {
  return {"table",
          "rows of dense and dynamic embedding tables, beside those of a flat array",
          {{"rows", "4000000", "rows of the tables"},
           {"dim", "32", "elements of a row"},
           {"batch", "8192", "keys of a pull or push"},
           {"limit_mib", "512", "of a dynamic table that meets more ids than it has room for"},
           {"repeats", "5", "medians of so many, 200 batches each"}},
          Run};
}

}  // namespace cohort::bench
