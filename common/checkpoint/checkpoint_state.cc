#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

constexpr uint64_t kStateBytesMax = 16 << 20;

// A collector that keeps the first error of a parse. Without a collector, protobuf would print
// errors to stderr. Thread-compatible.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  const std::string& text() const { return text_; }

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ": ", message);
  }

 private:
  std::string text_;
};

std::string StatePath(const std::string& directory) { return JoinPath(directory, "checkpoint"); }

// Returns `path` relative to `directory` if it lies below the directory, and unchanged otherwise.
std::string RelativeTo(const std::string& directory, absl::string_view path) {
  return std::string(absl::StripPrefix(path, absl::StrCat(absl::StripSuffix(directory, "/"), "/")));
}

}  // namespace

absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem& files,
                                                    const std::string& directory) {
  const std::string path = StatePath(directory);
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
    // The size of the state file is checked before the file is read into memory.
    if (file->size() > kStateBytesMax) {
      return absl::DataLossError(absl::StrCat(path, " has more than ", kStateBytesMax, " bytes"));
    }
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  proto::BundleState message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  // The state file of a newer TensorFlow may have fields that Cohort does not know.
  parser.AllowUnknownField(true);
  // An empty state file would parse as an empty message, although a crash may have emptied the
  // file.
  if (text.empty()) return absl::DataLossError(absl::StrCat(path, " is empty"));
  const std::string begins = absl::StrCat("; it begins with '", Excerpt(text), "'");
  if (!parser.ParseFromString(text, &message)) {
    return absl::DataLossError(absl::StrCat(path, ": not in text form, ", error.text(), begins));
  }
  if (message.model_checkpoint_path().empty()) {
    return absl::DataLossError(absl::StrCat(path, ": model_checkpoint_path is not set", begins));
  }
  CheckpointState state;
  state.latest = RelativeTo(directory, message.model_checkpoint_path());
  for (const std::string& one : message.all_model_checkpoint_paths()) {
    state.all.push_back(RelativeTo(directory, one));
  }
  return state;
}

absl::Status WriteCheckpointState(FileSystem& files, const std::string& directory,
                                  const CheckpointState& state) {
  if (state.latest.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(StatePath(directory), ": the latest checkpoint has no name"));
  }
  proto::BundleState message;
  message.set_model_checkpoint_path(state.latest);
  for (const std::string& one : state.all) message.add_all_model_checkpoint_paths(one);
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return WriteFileAtomically(files, StatePath(directory), text);
}

}  // namespace cohort
