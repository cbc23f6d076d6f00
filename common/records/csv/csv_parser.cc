#include "common/records/csv/csv_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr char kQuote = '"';

size_t CountOf(const ColumnValues& values, CsvType type) {
  switch (type) {
    case CsvType::kInt32:
    case CsvType::kInt64:
      return values.ints.size();
    case CsvType::kFloat32:
      return values.floats.size();
    case CsvType::kFloat64:
      return values.doubles.size();
    case CsvType::kString:
      return values.strings.size();
  }
  return 0;
}

// Drops blanks around a field, which few fields have. The field is not empty.
absl::string_view WithoutBlanks(absl::string_view field) {
  const bool has_none = static_cast<unsigned char>(field.front()) > ' ' &&
                        static_cast<unsigned char>(field.back()) > ' ';
  return has_none ? field : absl::StripAsciiWhitespace(field);
}

// Reads a decimal integer with an optional sign. Returns whether all of the text is one, in int64.
bool ReadInt(absl::string_view text, int64_t* value) {
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return false;
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end && !text.empty();
}

// Reads the forms of strtod, which are those of TensorFlow: also inf, nan, and hexadecimal digits.
// A number beyond the type's range becomes infinite or 0.
template <typename T>
bool ReadFloat(absl::string_view text, T* value) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc() && at == end) return true;
  // strtod reads a terminated copy; few fields come here.
  const std::string copy(text);
  if (copy.empty() || absl::ascii_isspace(copy[0])) return false;
  char* stop = nullptr;
  if constexpr (std::is_same_v<T, float>) {
    *value = std::strtof(copy.c_str(), &stop);
  } else {
    *value = std::strtod(copy.c_str(), &stop);
  }
  return stop == copy.c_str() + copy.size();
}

absl::Status Invalid(CsvType type, absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", Excerpt(text), "' is not a valid ", CsvTypeName(type)));
}

}  // namespace

absl::string_view CsvTypeName(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return "int32";
    case CsvType::kInt64:
      return "int64";
    case CsvType::kFloat32:
      return "float32";
    case CsvType::kFloat64:
      return "float64";
    case CsvType::kString:
      return "string";
  }
  return "unknown";
}

CsvParser::CsvParser(std::vector<CsvColumn> columns, CsvOptions options)
    : columns_(std::move(columns)), options_(std::move(options)) {}

absl::StatusOr<CsvParser> CsvParser::Make(std::vector<CsvColumn> columns, CsvOptions options) {
  const char delimiter = options.delimiter;
  if ((delimiter == kQuote && options.quotes) || delimiter == '\n' || delimiter == '\r') {
    return absl::InvalidArgumentError("the delimiter is a quote or the end of a line");
  }
  for (const CsvColumn& column : columns) {
    if (!column.default_value) continue;
    if (column.default_value->size() == 1 && CountOf(*column.default_value, column.type) == 1) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "column '", Excerpt(column.name), "': its default is not one ", CsvTypeName(column.type)));
  }
  return CsvParser(std::move(columns), std::move(options));
}

absl::Status CsvParser::Append(absl::string_view record, absl::Span<ColumnValues> values,
                               StringArena& arena) const {
  absl::Status status = AppendFields(record, values, arena);
  if (status.ok()) return status;
  // The columns that the record has reached have one value more than the others.
  size_t least = std::numeric_limits<size_t>::max();
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].is_read) least = std::min(least, values[i].size());
  }
  for (size_t i = 0; i < columns_.size(); ++i) values[i].Truncate(least);
  return status;
}

absl::Status CsvParser::AppendFields(absl::string_view record, absl::Span<ColumnValues> values,
                                     StringArena& arena) const {
  // The fields are counted before any is converted, so that the number of a record's fields is what
  // the error tells, and no column is behind another.
  Fields taken;
  const bool has_quotes =
      options_.quotes && std::memchr(record.data(), kQuote, record.size()) != nullptr;
  if (!has_quotes) SplitPlain(record, taken);
  for (bool is_last = !has_quotes; !is_last;) {
    ASSIGN_OR_RETURN(taken.emplace_back(), TakeField(record, &is_last, arena));
  }
  if (taken.size() != columns_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the record has ", taken.size(), " fields, not ", columns_.size()));
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!columns_[i].is_read) continue;
    const absl::Status appended = AppendField(i, taken[i], values[i]);
    if (!appended.ok()) {
      return Annotate(appended,
                      absl::StrCat("field ", i, " (column '", Excerpt(columns_[i].name), "')"));
    }
  }
  return absl::OkStatus();
}

void CsvParser::SplitPlain(absl::string_view record, Fields& fields) const {
  const char* at = record.data();
  const char* const end = at + record.size();
  while (true) {
    const void* const found =
        at == end ? nullptr : std::memchr(at, options_.delimiter, static_cast<size_t>(end - at));
    const char* const stop = found == nullptr ? end : static_cast<const char*>(found);
    const absl::string_view field(at, static_cast<size_t>(stop - at));
    fields.push_back(options_.trim && !field.empty() ? WithoutBlanks(field) : field);
    if (found == nullptr) return;
    at = stop + 1;
  }
}

// Takes the next field off `rest`.
absl::StatusOr<absl::string_view> CsvParser::TakeField(absl::string_view& rest, bool* is_last,
                                                       StringArena& arena) const {
  if (!options_.quotes || rest.empty() || rest[0] != kQuote) {
    const size_t end = rest.find(options_.delimiter);
    *is_last = end == absl::string_view::npos;
    const absl::string_view field = rest.substr(0, end);
    rest.remove_prefix(*is_last ? rest.size() : end + 1);
    if (options_.quotes && field.find(kQuote) != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", Excerpt(field), "' has a quote inside and does not begin with one"));
    }
    return options_.trim ? absl::StripAsciiWhitespace(field) : field;
  }
  size_t quotes = 0;
  size_t at = 1;
  for (;; ++at) {
    at = rest.find(kQuote, at);
    if (at == absl::string_view::npos) {
      return absl::InvalidArgumentError("a quoted field is not closed");
    }
    // A doubled quote stands for one.
    if (at + 1 == rest.size() || rest[at + 1] != kQuote) break;
    ++quotes;
    ++at;
  }
  const absl::string_view field = rest.substr(1, at - 1);
  rest.remove_prefix(at + 1);
  *is_last = rest.empty();
  if (!*is_last && rest[0] != options_.delimiter) {
    return absl::InvalidArgumentError("text follows the closing quote of a field");
  }
  if (!*is_last) rest.remove_prefix(1);
  if (quotes == 0) return field;
  std::string& text = arena.emplace_back();
  text.reserve(field.size() - quotes);
  for (size_t i = 0; i < field.size(); ++i) {
    text.push_back(field[i]);
    if (field[i] == kQuote) ++i;
  }
  return text;
}

absl::Status CsvParser::AppendField(size_t column, absl::string_view field,
                                    ColumnValues& values) const {
  const CsvColumn& spec = columns_[column];
  const bool is_missing = field.empty() || field == options_.na_value;
  if (is_missing) {
    if (!spec.default_value) {
      return absl::InvalidArgumentError("the field is missing, and no default is given");
    }
    values.Append(*spec.default_value);
    return absl::OkStatus();
  }
  if (spec.type == CsvType::kString) {
    values.strings.push_back(field);
    return absl::OkStatus();
  }
  const absl::string_view text = WithoutBlanks(field);
  if (spec.type == CsvType::kFloat32) {
    float value = 0;
    if (!ReadFloat(text, &value)) return Invalid(spec.type, field);
    values.floats.push_back(value);
  } else if (spec.type == CsvType::kFloat64) {
    double value = 0;
    if (!ReadFloat(text, &value)) return Invalid(spec.type, field);
    values.doubles.push_back(value);
  } else {
    int64_t value = 0;
    const bool is_int = ReadInt(text, &value);
    const bool fits = spec.type == CsvType::kInt64 || (value >= INT32_MIN && value <= INT32_MAX);
    if (!is_int || !fits) return Invalid(spec.type, field);
    values.ints.push_back(value);
  }
  return absl::OkStatus();
}

}  // namespace cohort
