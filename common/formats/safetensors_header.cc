#include "common/formats/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/formats/stored_elements.h"

namespace cohort {

namespace {

using Json = nlohmann::json;

// The receiver of the JSON parser's events, which follows the four levels that a header has:
// header, tensor (or metadata), shape or offsets, number. The first event that does not fit ends
// the parsing. Thread-compatible.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("a bool"); }
  bool number_float(number_float_t, const string_t&) override { return Refuse("a fraction"); }
  bool binary(binary_t&) override { return Refuse("binary data"); }
  bool number_integer(number_integer_t) override { return Refuse("a negative number"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kNumbers) return Refuse("a number");
    if (value > INT64_MAX) return Refuse("a number above 2^63");
    const size_t most = field_ == "shape" ? kStoredRankMax : 2;
    if (numbers_.size() >= most) return Refuse(absl::StrCat("more than ", most, " numbers"));
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) {
      header_.metadata[field_] = value;
      return true;
    }
    if (level_ != Level::kTensor || field_ != "dtype") return Refuse("a string");
    entry_.dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (level_ == Level::kNothing) {
      level_ = Level::kHeader;
      return true;
    }
    if (level_ != Level::kHeader) return Refuse("an object");
    level_ = entry_.name == kSafetensorsMetadataKey ? Level::kMetadata : Level::kTensor;
    fields_.clear();
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kHeader) {
      level_ = Level::kNothing;
      return true;
    }
    if (level_ == Level::kTensor) {
      if (fields_.size() != 3) return Fail("needs dtype, shape and data_offsets");
      header_.entries.push_back(std::move(entry_));
      entry_ = {};
    }
    level_ = Level::kHeader;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor || field_ == "dtype") return Refuse("a list");
    level_ = Level::kNumbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    level_ = Level::kTensor;
    if (field_ == "shape") {
      entry_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) return Fail("data_offsets needs two numbers");
    entry_.begin = static_cast<uint64_t>(numbers_[0]);
    entry_.end = static_cast<uint64_t>(numbers_[1]);
    return true;
  }

  bool key(string_t& name) override {
    if (level_ == Level::kHeader) {
      entry_ = {};
      field_.clear();
      entry_.name = name;
      return names_.insert(name).second || Fail("is named twice");
    }
    field_ = name;
    const bool known = name == "dtype" || name == "shape" || name == "data_offsets";
    if (level_ == Level::kTensor && !known) {
      return Fail(absl::StrCat("has the unknown key '", Excerpt(name), "'"));
    }
    return fields_.insert(name).second || Fail(absl::StrCat("has '", Excerpt(name), "' twice"));
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    error_ = absl::StrCat("the header is not JSON at byte ", position);
    return false;
  }

  const std::string& error() const { return error_; }
  SafetensorsHeader TakeHeader() { return std::move(header_); }

 private:
  enum class Level { kNothing, kHeader, kMetadata, kTensor, kNumbers };

  bool Fail(absl::string_view what) {
    error_ = absl::StrCat("tensor '", Excerpt(entry_.name), "' ", what);
    return false;
  }
  bool Refuse(absl::string_view found) {
    if (level_ != Level::kNothing) {
      return Fail(absl::StrCat("has ", found, field_.empty() ? "" : " in ", Excerpt(field_)));
    }
    error_ = absl::StrCat("the header is ", found, ", not an object");
    return false;
  }

  SafetensorsHeader header_;
  Level level_ = Level::kNothing;
  SafetensorsEntry entry_;        // the tensor that is being read
  std::string field_;             // the key whose value comes next, below a tensor or metadata
  std::vector<int64_t> numbers_;  // the list that is being read
  std::set<std::string> names_;   // all tensors so far
  std::set<std::string> fields_;  // keys in the object that is being read
  std::string error_;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text) {
  HeaderReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError(reader.error());
  }
  return reader.TakeHeader();
}

}  // namespace cohort
