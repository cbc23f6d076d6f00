#include "common/records/record_format.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/tfrecord.h"

namespace cohort {

namespace {

absl::Status CutOff(uint64_t offset, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the file ends inside the record at byte ", offset, what));
}

class TfRecordScanner final : public RecordScanner {
 public:
  explicit TfRecordScanner(uint64_t offset) : begin_(offset) {}

  absl::Status Add(absl::string_view bytes, OnEnd on_end) override {
    while (!bytes.empty()) {
      if (header_.size() < kTfRecordHeaderBytes) {
        const size_t taken = std::min(bytes.size(), kTfRecordHeaderBytes - header_.size());
        absl::StrAppend(&header_, bytes.substr(0, taken));
        bytes.remove_prefix(taken);
        if (header_.size() < kTfRecordHeaderBytes) return absl::OkStatus();
        ASSIGN_OR_RETURN(const uint64_t length, ReadTfRecordHeader(header_, begin_));
        left_ = length + kTfRecordFooterBytes;
      }
      const auto passed = std::min<uint64_t>(left_, bytes.size());
      bytes.remove_prefix(passed);
      left_ -= passed;
      if (left_ > 0) return absl::OkStatus();
      begin_ += Extent();
      header_.clear();
      on_end(begin_);
    }
    return absl::OkStatus();
  }

  absl::Status Finish(OnEnd on_end) override {
    if (header_.empty()) return absl::OkStatus();
    return CutOff(begin_, header_.size() < kTfRecordHeaderBytes ? "'s header" : "");
  }

 private:
  uint64_t Extent() const {
    uint64_t length = 0;
    std::memcpy(&length, header_.data(), sizeof(length));
    return kTfRecordHeaderBytes + length + kTfRecordFooterBytes;
  }

  uint64_t begin_;
  std::string header_;  // the first bytes of the record, up to kTfRecordHeaderBytes
  uint64_t left_ = 0;   // with a whole header: the bytes of the record that have not come
};

class LineScanner final : public RecordScanner {
 public:
  explicit LineScanner(uint64_t offset) : offset_(offset), begin_(offset) {}

  absl::Status Add(absl::string_view bytes, OnEnd on_end) override {
    while (!bytes.empty()) {
      const size_t newline = bytes.find('\n');
      const size_t passed = newline == absl::string_view::npos ? bytes.size() : newline + 1;
      offset_ += passed;
      bytes.remove_prefix(passed);
      if (newline == absl::string_view::npos) break;
      begin_ = offset_;
      on_end(offset_);
    }
    return absl::OkStatus();
  }

  // The last line may lack its LF.
  absl::Status Finish(OnEnd on_end) override {
    if (begin_ < offset_) on_end(offset_);
    return absl::OkStatus();
  }

 private:
  uint64_t offset_;
  uint64_t begin_;
};

// Records that are passed over belong to the bytes before the next record.
class CsvScanner final : public RecordScanner {
 public:
  CsvScanner(uint64_t offset, const RecordFormat& format)
      : format_(format), offset_(offset), begin_(offset) {}

  absl::Status Add(absl::string_view bytes, OnEnd on_end) override {
    for (size_t at = 0; at < bytes.size(); ++at) {
      at += PassPlainLines(bytes.substr(at), on_end);
      if (at == bytes.size()) break;
      const char byte = bytes[at];
      // A CR ends a record, and takes an LF that follows it along.
      if (after_cr_) {
        after_cr_ = false;
        if (byte == '\n') {
          ++offset_;
          End(on_end);
          continue;
        }
        End(on_end);
      }
      ++offset_;
      if (in_comment_) {
        if (byte == '\n') End(on_end);
        after_cr_ = byte == '\r';
        continue;
      }
      NoteContent(byte);
      if (byte == '"' && format_.quotes) {
        in_quotes_ = !in_quotes_;
      } else if (in_quotes_) {
        continue;
      } else if (byte == '\n') {
        End(on_end);
      } else if (byte == '\r') {
        after_cr_ = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish(OnEnd on_end) override {
    if (in_quotes_) return CutOff(begin_, ", in a quoted field that is not closed");
    if (begin_ < offset_) End(on_end);
    return absl::OkStatus();
  }

 private:
  // Passes whole lines that need no look at each byte: those without quotes and CR, at the
  // beginning of a record. Returns their bytes.
  size_t PassPlainLines(absl::string_view bytes, OnEnd on_end) {
    size_t passed = 0;
    while (begin_ == offset_ && !after_cr_ && passed < bytes.size()) {
      const char* const line = bytes.data() + passed;
      const size_t left = bytes.size() - passed;
      const void* const found = std::memchr(line, '\n', left);
      if (found == nullptr) break;
      const auto size = static_cast<size_t>(static_cast<const char*>(found) - line);
      const bool is_plain = size > 0 && std::memchr(line, '\r', size) == nullptr &&
                            (!format_.quotes || std::memchr(line, '"', size) == nullptr) &&
                            (format_.comment.empty() || line[0] != format_.comment[0]);
      if (!is_plain) break;
      passed += size + 1;
      offset_ += size + 1;
      begin_ = offset_;
      on_end(offset_);
    }
    return passed;
  }

  // Looks for a comment at the beginning of a record.
  void NoteContent(char byte) {
    if (byte != '\n' && byte != '\r') is_blank_ = false;
    if (matched_ >= format_.comment.size()) return;
    if (byte != format_.comment[matched_]) {
      matched_ = format_.comment.size() + 1;  // no comment
    } else if (++matched_ == format_.comment.size()) {
      in_comment_ = true;
    }
  }

  void End(OnEnd on_end) {
    const bool is_passed_over = in_comment_ || (is_blank_ && format_.skip_blank);
    begin_ = offset_;
    matched_ = 0;
    in_comment_ = false;
    is_blank_ = true;
    if (!is_passed_over) on_end(offset_);
  }

  const RecordFormat format_;
  uint64_t offset_;
  uint64_t begin_;
  // A doubled quote inside of a quoted field closes the field and opens it again, which finds the
  // same ends.
  bool in_quotes_ = false;
  bool after_cr_ = false;
  bool in_comment_ = false;
  bool is_blank_ = true;
  size_t matched_ = 0;  // bytes of the comment's beginning that the record has
};

// Returns the first byte behind the records that are passed over.
absl::string_view WithoutPassedOver(absl::string_view extent, const RecordFormat& format) {
  for (;;) {
    const bool is_blank =
        format.skip_blank && !extent.empty() && (extent[0] == '\n' || extent[0] == '\r');
    const bool is_comment = !format.comment.empty() && absl::StartsWith(extent, format.comment);
    if (!is_blank && !is_comment) return extent;
    const size_t end = extent.find_first_of("\n\r");
    if (end == absl::string_view::npos) return {};
    const bool is_pair = extent[end] == '\r' && absl::StartsWith(extent.substr(end + 1), "\n");
    extent.remove_prefix(end + (is_pair ? 2 : 1));
  }
}

// The header has been passed before. The caller takes the footer away.
class FixedLengthScanner final : public RecordScanner {
 public:
  FixedLengthScanner(uint64_t offset, uint64_t bytes)
      : bytes_(bytes), offset_(offset), begin_(offset) {}

  absl::Status Add(absl::string_view bytes, OnEnd on_end) override {
    offset_ += bytes.size();
    while (offset_ - begin_ >= bytes_) {
      begin_ += bytes_;
      on_end(begin_);
    }
    return absl::OkStatus();
  }

  absl::Status Finish(OnEnd on_end) override {
    if (begin_ == offset_) return absl::OkStatus();
    return CutOff(begin_, absl::StrCat(", after ", offset_ - begin_, " of ", bytes_, " bytes"));
  }

 private:
  const uint64_t bytes_;
  uint64_t offset_;
  uint64_t begin_;
};

absl::string_view View(absl::Span<const char> bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

std::unique_ptr<RecordScanner> MakeRecordScanner(const RecordFormat& format, uint64_t offset) {
  switch (format.kind) {
    case RecordFormat::Kind::kTfRecord:
      return std::make_unique<TfRecordScanner>(offset);
    case RecordFormat::Kind::kTextLines:
      return std::make_unique<LineScanner>(offset);
    case RecordFormat::Kind::kCsv:
      return std::make_unique<CsvScanner>(offset, format);
    case RecordFormat::Kind::kFixedLength:
      return std::make_unique<FixedLengthScanner>(offset, format.bytes);
  }
  return nullptr;
}

absl::StatusOr<absl::string_view> RecordContent(const RecordFormat& format, absl::Span<char> extent,
                                                uint64_t offset) {
  absl::string_view content = View(extent);
  switch (format.kind) {
    case RecordFormat::Kind::kTfRecord: {
      const absl::string_view footer = content.substr(content.size() - kTfRecordFooterBytes);
      content.remove_prefix(kTfRecordHeaderBytes);
      content.remove_suffix(kTfRecordFooterBytes);
      RETURN_IF_ERROR(CheckTfRecord(content, footer, offset));
      return content;
    }
    case RecordFormat::Kind::kTextLines: {
      if (!content.empty() && content.back() == '\n') content.remove_suffix(1);
      if (content.find('\r') == absl::string_view::npos) return content;
      char* const begin = extent.data();
      char* const end = std::remove(begin, begin + content.size(), '\r');
      return absl::string_view(begin, static_cast<size_t>(end - begin));
    }
    case RecordFormat::Kind::kCsv:
      content = WithoutPassedOver(content, format);
      if (!content.empty() && content.back() == '\n') content.remove_suffix(1);
      if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
      return content;
    case RecordFormat::Kind::kFixedLength:
      return content;
  }
  return content;
}

}  // namespace cohort
