#include "worker/data/click_log.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The number of values in each category column of Criteo's display advertising challenge.
constexpr std::array<uint32_t, kClickCategories> kVocabularies = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};
// The shares of missing values in integer and in category columns; below them, the parameters of
// the model by which clicks are drawn.
constexpr double kMissingIntegers = 0.15;
constexpr double kMissingCategories = 0.03;
constexpr double kBias = -1.2;
constexpr double kIntegerWeight = 0.35;  // standard deviation of the weight of an integer column
constexpr double kCategoryWeight = 0.55;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kLineBytesMax = 4096;

// Returns a double in [0, 1) with the upper 53 bits of `bits`.
double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// Returns the weight in the click model of one value of a category, or of an integer column (value
// 0). All seeds have the same weights.
double Weight(uint64_t column, uint64_t value) {
  return RandomStream(0, "click_weights").Child(column).Normal(value);
}

absl::Status BadField(size_t field, absl::string_view text, absl::string_view need) {
  return absl::InvalidArgumentError(
      absl::StrCat("field ", field + 1, " is '", Excerpt(text), "', not ", need));
}

absl::Status CheckBuckets(const proto::ClickLog& log) {
  const bool valid = log.buckets_size() == static_cast<int>(kClickCategories) &&
                     std::all_of(log.buckets().begin(), log.buckets().end(), [](int64_t buckets) {
                       return buckets >= 1 && buckets <= std::numeric_limits<int32_t>::max();
                     });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("click_log.buckets has ", log.buckets_size(),
                   " numbers; it must have 26, each from 1 to 2^31 - 1"));
}

// The columns of a click log, to which rows are added. Thread-compatible.
class ClickTable {
 public:
  explicit ClickTable(const proto::ClickLog& log)
      : buckets_(log.buckets().begin(), log.buckets().end()), categories_(kClickCategories) {}

  void Add(const ClickRow& row) {
    // A missing or negative integer counts as 0. The logarithm makes large counts comparable to
    // small ones.
    for (const std::optional<int32_t>& value : row.integers) {
      integers_.push_back(std::log1p(static_cast<float>(std::max(value.value_or(0), 0))));
    }
    // The 32-bit value of a category is reduced modulo the column's number of buckets. A missing
    // value is in bucket 0.
    for (size_t i = 0; i < kClickCategories; ++i) {
      const int64_t id = row.categories[i].has_value() ? *row.categories[i] % buckets_[i] : 0;
      categories_[i].push_back(static_cast<int32_t>(id));
    }
    labels_.push_back(row.click ? 1 : 0);
  }

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }

  std::vector<ClickColumn> Take() const {
    const int64_t rows = size();
    const std::vector<std::string> names = ClickColumnNames();
    std::vector<ClickColumn> columns;
    columns.push_back(
        {names.front(), Tensor::FromVector<float>(integers_, {rows, int64_t{kClickIntegers}})});
    for (size_t i = 0; i < kClickCategories; ++i) {
      columns.push_back({names[i + 1], Tensor::FromVector<int32_t>(categories_[i], {rows})});
    }
    columns.push_back({names.back(), Tensor::FromVector<int32_t>(labels_, {rows})});
    return columns;
  }

 private:
  const std::vector<int64_t> buckets_;
  std::vector<float> integers_;
  std::vector<std::vector<int32_t>> categories_;
  std::vector<int32_t> labels_;
};

// The file that is being read, for error messages. Several files fill one table, so the rows of
// earlier files do not count as lines of this file.
struct FilePlace {
  const std::string& path;
  int64_t rows_before = 0;

  // Returns the number of the line in this file that would become the next row of `table`.
  int64_t Line(const ClickTable& table) const { return table.size() - rows_before + 1; }
};

// Parses one line and adds its row to `table`. Errors: DATA_LOSS naming the file, line and field;
// INVALID_ARGUMENT if `table` has kClickRowsMax rows.
absl::Status AddLine(absl::string_view line, const FilePlace& place, ClickTable& table) {
  const absl::StatusOr<ClickRow> row = ParseClickRow(line);
  if (!row.ok()) {
    return absl::DataLossError(
        absl::StrCat(place.path, ": line ", place.Line(table), ": ", row.status().message()));
  }
  if (table.size() >= kClickRowsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(place.path, ": more than ", kClickRowsMax, " rows; split the file"));
  }
  table.Add(*row);
  return absl::OkStatus();
}

// Adds the rows of the click log at `path` to `table`. Reads chunks of kReadBytes, so that memory
// holds one chunk and one partial line at most.
absl::Status ReadFileLines(const std::string& path, FileSystem& files, ClickTable& table) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  const FilePlace place{path, table.size()};
  std::string text;  // text that is not parsed yet; begins at the start of a line
  for (uint64_t offset = 0; offset < file->size();) {
    const size_t before = text.size();
    const uint64_t size = std::min<uint64_t>(kReadBytes, file->size() - offset);
    text.resize(before + size);
    RETURN_IF_ERROR(file->Read(offset, absl::MakeSpan(text.data() + before, size)));
    offset += size;
    // Every complete line is parsed. A partial line at the end of the chunk waits for the next
    // chunk.
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      RETURN_IF_ERROR(AddLine(absl::string_view(text).substr(begin, end - begin), place, table));
      begin = end + 1;
    }
    text.erase(0, begin);
    // The length of a line is limited, because a file without line ends would otherwise be read
    // into memory as a whole.
    if (text.size() > kLineBytesMax && offset < file->size()) {
      return absl::DataLossError(absl::StrCat(path, ": line ", place.Line(table),
                                              " is longer than ", kLineBytesMax, " bytes"));
    }
  }
  return text.empty() ? absl::OkStatus() : AddLine(text, place, table);
}

}  // namespace

ClickRow MakeClickRow(uint64_t seed, uint64_t index) {
  // The random draws of a row depend on the seed and the row's index only.
  const RandomStream stream = RandomStream(seed, "click_log").Child(index);
  uint64_t draw = 0;
  const auto next = [&] { return Unit(stream.Bits(draw++)); };
  ClickRow row;
  double logit = kBias;
  for (size_t i = 0; i < kClickIntegers; ++i) {
    // A missing value also uses up its draws, so that later columns get the same draws in any case.
    const bool missing = next() < kMissingIntegers;
    const double size = next();
    if (missing) continue;
    // Squaring the uniform draw makes small counts frequent. The largest count is exp(6) - 1.
    row.integers[i] = static_cast<int32_t>(std::expm1(6 * size * size));
    logit += kIntegerWeight * Weight(i, 0) * (std::log1p(*row.integers[i]) / 2 - 1);
  }
  for (size_t i = 0; i < kClickCategories; ++i) {
    const bool missing = next() < kMissingCategories;
    const double rank = next();
    if (missing) continue;
    // The size of the vocabulary is raised to a power that is uniform in [0, 1). So value k has a
    // frequency of about 1 / k.
    const auto value = static_cast<uint64_t>(std::pow(kVocabularies[i], rank)) - 1;
    row.categories[i] = static_cast<uint32_t>(Mix64(((i + 1) << 32) + value));
    logit += kCategoryWeight * Weight(kClickIntegers + i, value);
  }
  // The logistic function turns the sum of the weights into the probability of a click.
  row.click = next() < 1 / (1 + std::exp(-logit));
  return row;
}

absl::StatusOr<ClickRow> ParseClickRow(absl::string_view line) {
  // Files with Windows line ends leave a carriage return at the end of each line.
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  if (fields.size() != 1 + kClickIntegers + kClickCategories) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", fields.size(), " fields between tabs, not 40"));
  }
  ClickRow row;
  if (fields[0] != "0" && fields[0] != "1") return BadField(0, fields[0], "0 or 1");
  row.click = fields[0] == "1";
  for (size_t i = 0; i < kClickIntegers; ++i) {
    const absl::string_view field = fields[1 + i];
    int32_t value = 0;
    if (field.empty()) continue;
    if (!absl::SimpleAtoi(field, &value)) return BadField(1 + i, field, "an integer");
    row.integers[i] = value;
  }
  for (size_t i = 0; i < kClickCategories; ++i) {
    const absl::string_view field = fields[1 + kClickIntegers + i];
    uint32_t value = 0;
    if (field.empty()) continue;
    if (field.size() > 8 || !absl::SimpleHexAtoi(field, &value)) {
      return BadField(1 + kClickIntegers + i, field, "up to 8 hexadecimal digits");
    }
    row.categories[i] = value;
  }
  return row;
}

std::vector<std::string> ClickColumnNames() {
  std::vector<std::string> names = {"dense"};
  for (size_t i = 1; i <= kClickCategories; ++i) names.push_back(absl::StrCat("C", i));
  names.push_back("label");
  return names;
}

absl::StatusOr<std::vector<ClickColumn>> ReadClickLog(const proto::ClickLog& log,
                                                      FileSystem& files) {
  RETURN_IF_ERROR(CheckBuckets(log));
  ClickTable table(log);
  for (const std::string& path : log.paths()) {
    RETURN_IF_ERROR(ReadFileLines(path, files, table));
  }
  // Synthetic rows are made only if `log` names no files.
  if (!log.paths().empty()) return table.Take();
  if (log.count() < 1 || log.count() > kClickRowsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("click_log.count is ", log.count(), ", not 1 to ", kClickRowsMax));
  }
  for (int64_t i = 0; i < log.count(); ++i) {
    table.Add(MakeClickRow(log.seed(), static_cast<uint64_t>(i)));
  }
  return table.Take();
}

}  // namespace cohort
