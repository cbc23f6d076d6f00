// Pulls and Adagrad pushes of a dynamic table in this process, on one thread, beside the limit: the
// same rows, as many bytes of each, from a flat array whose rows need no finding.

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "ps_server/table/prefetch.h"
#include "ps_server/table/row_table.h"
#include "tests/bench/bench.h"

namespace cohort::bench {

namespace {

constexpr double kZipfExponent = 1.1;
constexpr size_t kBatches = 200;  // in a repeat
constexpr absl::Time kNow = absl::UnixEpoch();

using Keys = std::vector<uint64_t>;

// The row of rank r under the exponent s has a probability of about r^-s: the continuous
// distribution, inverted.
uint64_t ZipfRank(double uniform, uint64_t rows) {
  const double power = 1 - kZipfExponent;
  const double most = std::pow(static_cast<double>(rows) + 1, power) - 1;
  const double rank = std::pow(1 + uniform * most, 1 / power);
  return std::min(static_cast<uint64_t>(rank) - 1, rows - 1);
}

// Row numbers become keys that say nothing of their order.
uint64_t KeyOf(uint64_t row) { return Mix64(row ^ 0x5bd1e995u); }

struct Work {
  std::vector<Keys> rows;  // of each batch, as numbers
  std::vector<Keys> keys;
  size_t count = 0;
};

struct Sizes {
  size_t rows = 0;
  size_t width = 0;
  size_t batch = 0;
};

// Each row once in a batch where `unique`: what a worker pushes.
Work MakeWork(const Sizes& sizes, const char* keys, bool unique) {
  SequenceRng rng(7);
  Work work;
  for (size_t b = 0; b < kBatches; ++b) {
    Keys rows;
    std::unordered_set<uint64_t> seen;
    for (size_t i = 0; i < sizes.batch; ++i) {
      const uint64_t row =
          *keys == 'z' ? ZipfRank(rng.Uniform(), sizes.rows) : rng.Below(sizes.rows);
      if (!unique || seen.insert(row).second) rows.push_back(row);
    }
    Keys batch(rows.size());
    std::transform(rows.begin(), rows.end(), batch.begin(), KeyOf);
    work.count += rows.size();
    work.rows.push_back(std::move(rows));
    work.keys.push_back(std::move(batch));
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

// A flat array of rows of `floats`, each with its row number's place known. Thread-compatible.
class FlatRows {
 public:
  FlatRows(size_t rows, size_t floats)
      : memory_(rows * floats * sizeof(float)), floats_(floats) {
    const size_t bytes = rows * floats * sizeof(float);
    row_bytes_ = floats * sizeof(float);
    data_ = memory_.begin();
    std::memset(data_, 0, bytes);
  }

  // Half of a row, its value.
  void Read(const Keys& rows, float* out) const {
    const size_t width = floats_ / 2;
    const size_t bytes = row_bytes_ / 2;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size()) Prefetch(rows[i + kAhead], bytes);
      std::memcpy(out + i * width, data_ + rows[i] * row_bytes_, bytes);
    }
  }

  // A value and its slot, by the table's own kernel.
  void Update(const Keys& rows, const float* gradients, const UpdateKernel& kernel,
              UpdateStep& step) {
    const size_t width = floats_ / 2;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size()) Prefetch(rows[i + kAhead], row_bytes_);
      float* const row = reinterpret_cast<float*>(data_ + rows[i] * row_bytes_);
      step.gradient = absl::MakeConstSpan(gradients + i * width, width);
      step.value_in = step.value_out = absl::MakeSpan(row, width);
      step.slots[0] = {absl::MakeSpan(row + width, width), absl::MakeSpan(row + width, width)};
      kernel.Apply(step);
    }
  }

 private:
  static constexpr size_t kAhead = 16;

  void Prefetch(uint64_t row, size_t bytes) const {
    for (size_t offset = 0; offset < bytes; offset += 64) {
      PrefetchLine(data_ + row * row_bytes_ + offset);
    }
  }

  HugePages memory_;
  size_t floats_;
  size_t row_bytes_;
  std::byte* data_;
};

struct Tables {
  std::unique_ptr<RowTable> dynamic;
  std::unique_ptr<UpdateKernel> kernel;
  std::unique_ptr<FlatRows> flat;  // a value and a slot for each row
};

absl::StatusOr<Tables> MakeTables(const Sizes& sizes) {
  RowTableOptions options;
  options.row = {"bench", sizes.width, DType::kFloat32, {"random_uniform", -0.05, 0.05, 1}};
  options.rule.set_op("adagrad");
  Tables tables;
  ASSIGN_OR_RETURN(tables.dynamic, RowTable::Create(options));
  ASSIGN_OR_RETURN(tables.kernel, MakeUpdateKernel(options.rule));
  const std::vector<float> zeros(sizes.batch * sizes.width);
  const double rate = Rate(sizes.rows, [&] {
    for (size_t first = 0; first < sizes.rows; first += sizes.batch) {
      Keys keys(std::min(sizes.batch, sizes.rows - first));
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = KeyOf(first + i);
      tables.dynamic->Push(keys, absl::MakeSpan(zeros.data(), keys.size() * sizes.width), {},
                           kNow);
    }
  });
  Print({"table", "create", rate, "Mrow/s"});
  const RowTableUse use = tables.dynamic->Use();
  const double rows = static_cast<double>(use.rows);
  const double payload = static_cast<double>(use.payload_bytes) / rows;
  Print({"table",
         "overhead",
         static_cast<double>(use.row_bytes + use.index_bytes) / rows - payload,
         "B/row",
         "24 B + 15 %",
         24 + 0.15 * payload,
         {{"index_bytes", static_cast<double>(use.index_bytes) / rows}, {"payload", payload}}});
  tables.flat = std::make_unique<FlatRows>(sizes.rows, 2 * sizes.width);
  return tables;
}

// Both by turns, so that other load on the machine meets both.
void Compare(const std::string& name, int repeats, size_t rows, const std::function<void()>& ours,
             const std::function<void()>& limit) {
  std::vector<double> our_rates;
  std::vector<double> limit_rates;
  for (int i = 0; i < repeats; ++i) {
    our_rates.push_back(Rate(rows, ours));
    limit_rates.push_back(Rate(rows, limit));
  }
  const auto [least, most] = std::minmax_element(our_rates.begin(), our_rates.end());
  Print({"table",
         name,
         Median(our_rates),
         "Mrow/s",
         "flat array",
         Median(limit_rates),
         {{"least", *least}, {"most", *most}}});
}

void BenchPull(const Sizes& sizes, const char* keys, int repeats, Tables& tables) {
  const Work work = MakeWork(sizes, keys, /*unique=*/false);
  std::vector<float> out(sizes.batch * sizes.width);
  Compare(
      absl::StrCat("pull/", keys), repeats, work.count,
      [&] {
        for (const Keys& batch : work.keys) {
          tables.dynamic->Pull(batch, kNow,
                               absl::MakeSpan(out.data(), batch.size() * sizes.width));
        }
      },
      [&] {
        for (const Keys& batch : work.rows) tables.flat->Read(batch, out.data());
      });
}

void BenchPush(const Sizes& sizes, const char* keys, int repeats, Tables& tables) {
  const Work work = MakeWork(sizes, keys, /*unique=*/true);
  const std::vector<float> gradients(sizes.batch * sizes.width, 0.01f);
  UpdateStep step;
  step.learning_rate = 0.01;
  step.row_width = sizes.width;
  step.slots.resize(1);
  Compare(
      absl::StrCat("push/adagrad/", keys), repeats, work.count,
      [&] {
        for (const Keys& batch : work.keys) {
          tables.dynamic->Push(batch, absl::MakeSpan(gradients.data(), batch.size() * sizes.width),
                               {0.01, 1}, kNow);
        }
      },
      [&] {
        for (const Keys& batch : work.rows) {
          tables.flat->Update(batch, gradients.data(), *tables.kernel, step);
        }
      });
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int rows, options.Number("rows"));
  ASSIGN_OR_RETURN(const int width, options.Number("dim"));
  ASSIGN_OR_RETURN(const int batch, options.Number("batch"));
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  if (rows < 1 || width < 1 || batch < 1 || repeats < 1) {
    return absl::InvalidArgumentError("--rows, --dim, --batch and --repeats are 1 or more");
  }
  const Sizes sizes = {static_cast<size_t>(rows), static_cast<size_t>(width),
                       static_cast<size_t>(batch)};
  ASSIGN_OR_RETURN(Tables tables, MakeTables(sizes));
  for (const char* keys : {"uniform", "zipf"}) {
    BenchPull(sizes, keys, repeats, tables);
    BenchPush(sizes, keys, repeats, tables);
  }
  return absl::OkStatus();
}

}  // namespace

Command TableBench() {
  return {"table",
          "rows of a dynamic embedding table, beside those of a flat array",
          {{"rows", "4000000", "rows of the table"},
           {"dim", "32", "elements of a row"},
           {"batch", "8192", "keys of a pull or push"},
           {"repeats", "5", "medians of so many, 200 batches each"}},
          Run};
}

}  // namespace cohort::bench
