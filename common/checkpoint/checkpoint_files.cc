#include "common/checkpoint/checkpoint_files.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/crc32c.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

constexpr absl::string_view kIndexSuffix = ".index";
constexpr absl::string_view kPreprocessingSuffix = ".preprocessing.json";
constexpr absl::string_view kNameOfStep = "ckpt-";
// The beginning of the names of recovery checkpoints. Recovery checkpoints may lie in the same
// directory as the job's checkpoints, and never count as the latest checkpoint.
constexpr absl::string_view kRecoveryBeginning = "recovery-";
constexpr absl::string_view kStateFile = "checkpoint";
// The beginning of the state file's last line, which has the CRC-32C of the bytes before this line.
// TensorFlow ignores the line, because it is a comment in protobuf's text form.
constexpr absl::string_view kChecksumTag = "# crc32c: ";
constexpr uint64_t kStateBytesMax = 16 << 20;
constexpr int kNamesMax = 1000;
// Maximum number of intact checkpoints that an error message lists.
constexpr size_t kNamedMax = 16;

// Removes the number of a data shard from the beginning of `rest`. Returns true if the number has
// at least five digits, as in the names of a checkpoint's files.
bool TakeNumber(absl::string_view& rest) {
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  rest.remove_prefix(end);
  return end >= 5;  // TensorFlow prints shard numbers with "%05d"
}

// Returns true for the suffixes ".index", ".data-<i>-of-<n>" and ".preprocessing.json" of a
// checkpoint's files, and for the names of their temporary files.
bool IsCheckpointSuffix(absl::string_view suffix) {
  suffix = FinalName(suffix);
  if (suffix == kIndexSuffix || suffix == kPreprocessingSuffix) return true;
  return absl::ConsumePrefix(&suffix, ".data-") && TakeNumber(suffix) &&
         absl::ConsumePrefix(&suffix, "-of-") && TakeNumber(suffix) && suffix.empty();
}

// Returns the step in a checkpoint's name "ckpt-<step>", and nullopt for any other name.
std::optional<int64_t> StepOfName(absl::string_view name) {
  int64_t step = 0;
  if (!absl::ConsumePrefix(&name, kNameOfStep) || !absl::SimpleAtoi(name, &step)) {
    return std::nullopt;
  }
  return step;
}

// Returns true for the names "ckpt-<step>" and "ckpt-<step>-<n>". UnusedCheckpointName makes names
// of the second form.
bool IsNameOfStep(absl::string_view base) {
  const size_t dash = base.rfind('-');
  int64_t number = 0;
  return StepOfName(base).has_value() ||
         (dash != absl::string_view::npos && absl::SimpleAtoi(base.substr(dash + 1), &number) &&
          StepOfName(base.substr(0, dash)).has_value());
}

// Returns the names of the complete checkpoints in a directory, except recovery checkpoints.
absl::StatusOr<std::vector<std::string>> NamesIn(FileSystem& files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, ListCheckpoints(files, directory));
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes) {
    std::string name = BaseName(prefix);
    if (!absl::StartsWith(name, kRecoveryBeginning)) names.push_back(std::move(name));
  }
  return names;
}

// Returns `error` with advice in its message: the intact checkpoints in the directory, and how to
// choose one of them.
absl::Status WithRemedy(const absl::Status& error, FileSystem& files,
                        const std::string& directory) {
  return absl::Status(
      error.code(), absl::StrCat(error.message(), "; ", IntactCheckpointsRemedy(files, directory)));
}

// Returns the prefix of the checkpoint with the most steps in its name, for a directory that has no
// state file. Returns "" if the directory has no checkpoints. Errors: FAILED_PRECONDITION if a
// checkpoint's name does not tell its step.
absl::StatusOr<std::string> FindWithoutState(FileSystem& files, const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(files, directory);
  if (absl::IsNotFound(names.status())) return std::string();
  RETURN_IF_ERROR(names.status());
  std::optional<int64_t> latest;
  bool told = true;
  for (const std::string& name : *names) {
    const std::optional<int64_t> step = StepOfName(name);
    told = told && step.has_value();
    latest = std::max(latest, step);
  }
  if (names->empty()) return std::string();
  if (told) return JoinPath(directory, CheckpointNameOfStep(*latest));
  return absl::FailedPreconditionError(absl::StrCat(
      directory, " has checkpoints (", absl::StrJoin(*names, ", "),
      ") but no state file 'checkpoint' that says which is the latest: name one by its prefix, "
      "such as ",
      JoinPath(directory, names->front())));
}

// A collector that keeps the first error in parsing a text. Without a collector, protobuf would
// print errors to stderr. Thread-compatible.
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

std::string StatePath(const std::string& directory) { return JoinPath(directory, kStateFile); }

std::string ChecksumLine(absl::string_view before) {
  return absl::StrCat(kChecksumTag, absl::Hex(Crc32c(before), absl::kZeroPad8), "\n");
}

// Checks the bytes of a state file against its checksum line. A file without such a line, as
// TensorFlow writes it, passes. Errors: DATA_LOSS that names both checksums.
absl::Status CheckStateBytes(absl::string_view text) {
  size_t line = absl::StartsWith(text, kChecksumTag) ? 0 : absl::string_view::npos;
  if (const size_t behind = text.rfind(absl::StrCat("\n", kChecksumTag));
      behind != absl::string_view::npos) {
    line = behind + 1;
  }
  if (line == absl::string_view::npos) return absl::OkStatus();
  const std::string right = ChecksumLine(text.substr(0, line));
  const absl::string_view found = text.substr(line);
  if (found == right) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its last line should be '", absl::StripSuffix(right, "\n"), "' and is '",
                   Excerpt(absl::StripSuffix(found, "\n")),
                   "': bytes of it have changed; if you have edited it, remove that line"));
}

// Returns `path` relative to `directory` if it lies below the directory, and unchanged otherwise.
std::string RelativeTo(const std::string& directory, absl::string_view path) {
  return std::string(absl::StripPrefix(path, absl::StrCat(absl::StripSuffix(directory, "/"), "/")));
}

}  // namespace

std::string CheckpointNameOfStep(int64_t step) { return absl::StrCat(kNameOfStep, step); }

std::string PreprocessingPath(const std::string& weights) {
  return absl::StrCat(weights, kPreprocessingSuffix);
}

bool IsCheckpointFile(absl::string_view name, absl::string_view base) {
  return absl::ConsumePrefix(&name, base) && IsCheckpointSuffix(name);
}

absl::StatusOr<std::vector<std::string>> ListCheckpointFiles(FileSystem& files,
                                                             const std::string& prefix) {
  const std::string directory = DirectoryOf(prefix);
  const std::string base = BaseName(prefix);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (IsCheckpointFile(name, base)) paths.push_back(JoinPath(directory, name));
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> ListCheckpoints(FileSystem& files,
                                                         const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> prefixes;
  for (const std::string& name : names) {
    absl::string_view base = name;
    if (absl::ConsumeSuffix(&base, kIndexSuffix)) prefixes.push_back(JoinPath(directory, base));
  }
  return prefixes;
}

absl::Status DeleteCheckpoint(FileSystem& files, const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListCheckpointFiles(files, prefix));
  // The index is removed first, because without an index the other files of the prefix do not count
  // as a checkpoint.
  RETURN_IF_ERROR(files.Remove(IndexPath(prefix)));
  for (const std::string& path : paths) RETURN_IF_ERROR(files.Remove(path));
  return absl::OkStatus();
}

void RemoveUnfinishedSaves(FileSystem& files, const std::string& directory) {
  RemoveTemporaries(files, StatePath(directory));
  const absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) return;
  const std::set<std::string> all(names->begin(), names->end());
  for (const std::string& name : all) {
    const std::string base = name.substr(0, name.find('.'));
    if (!IsNameOfStep(base) || !IsCheckpointFile(name, base)) continue;
    const bool complete = all.count(absl::StrCat(base, kIndexSuffix)) > 0;
    // The data shards of a complete checkpoint are kept. Temporary files are removed whether the
    // checkpoint is complete or not.
    if (complete && !IsTemporaryName(name)) continue;
    files.Remove(JoinPath(directory, name)).IgnoreError();
  }
}

absl::StatusOr<std::string> UnusedCheckpointName(FileSystem& files, const std::string& directory,
                                                 const std::string& name) {
  for (int i = 1; i <= kNamesMax; ++i) {
    std::string candidate = i == 1 ? name : absl::StrCat(name, "-", i);
    const absl::Status unused = CheckNotComplete(files, JoinPath(directory, candidate));
    if (unused.ok()) return candidate;
    if (!absl::IsAlreadyExists(unused)) return unused;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      directory, " has ", kNamesMax, " checkpoints called ", name, "; use another directory"));
}

absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem& files,
                                                    const std::string& directory) {
  const std::string path = StatePath(directory);
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
    // A state file that is too large is refused before the file is read into memory.
    if (file->size() > kStateBytesMax) {
      return absl::DataLossError(absl::StrCat(path, " has more than ", kStateBytesMax, " bytes"));
    }
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  proto::BundleState message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  // A state file that a newer TensorFlow has written may have fields that Cohort does not know.
  parser.AllowUnknownField(true);
  // protobuf would parse an empty file as an empty message. A crash may have emptied the state
  // file, so an empty file is an error.
  if (text.empty()) return absl::DataLossError(absl::StrCat(path, " is empty"));
  const std::string begins = absl::StrCat("; it begins with '", Excerpt(text), "'");
  if (const absl::Status intact = CheckStateBytes(text); !intact.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", intact.message(), begins));
  }
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
  return WriteFileAtomically(files, StatePath(directory), absl::StrCat(text, ChecksumLine(text)));
}

absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& directory,
                                           const std::string& which) {
  if (which != "latest") {
    absl::string_view prefix = which;
    // A shell completes the name of a checkpoint to "name.index"; the ending is cut off here. But
    // "x.index" may also be the whole name of a checkpoint, whose index is then the file
    // "x.index.index".
    const bool completed =
        absl::ConsumeSuffix(&prefix, kIndexSuffix) && !files.Open(IndexPath(which)).ok();
    const absl::StatusOr<std::vector<std::string>> names = files.List(which);
    if (!completed && !files.Open(IndexPath(which)).ok() && names.ok() && !names->empty()) {
      return WithRemedy(
          absl::NotFoundError(absl::StrCat(
              "checkpoint.restore names the directory ", which,
              ", not a checkpoint: for its latest "
              "one, name it in checkpoint.directory and write checkpoint.restore=latest")),
          files, which);
    }
    return completed ? std::string(prefix) : which;
  }
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(files, directory);
  if (absl::IsNotFound(state.status())) return FindWithoutState(files, directory);
  if (absl::IsDataLoss(state.status())) return WithRemedy(state.status(), files, directory);
  RETURN_IF_ERROR(state.status());
  const std::string prefix =
      absl::StartsWith(state->latest, "/") ? state->latest : JoinPath(directory, state->latest);
  // If the index exists but cannot be opened, the prefix is returned all the same: opening the
  // checkpoint will then fail with an error that says more.
  if (!absl::IsNotFound(files.Open(IndexPath(prefix)).status())) return prefix;
  return WithRemedy(
      absl::NotFoundError(absl::StrCat(StatePath(directory), " names '", Excerpt(state->latest),
                                       "' as the latest checkpoint, and ", "it has no file ",
                                       IndexPath(Excerpt(prefix)))),
      files, directory);
}

std::string IntactCheckpointsRemedy(FileSystem& files, const std::string& directory,
                                    absl::string_view damaged) {
  std::vector<std::string> intact;
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(files, directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    // Opening a checkpoint checks its index and the sizes of its data shards, but not the bytes in
    // the shards.
    if (name != damaged && BundleReader::Open(files, JoinPath(directory, name)).ok())
      intact.push_back(name);
  }
  if (intact.empty()) {
    return absl::StrCat("no intact checkpoint lies in ", directory,
                        ": copy one there, or leave checkpoint.restore out to begin anew");
  }
  // The checkpoints are sorted by the steps in their names, so that the checkpoint with the most
  // steps is last.
  std::stable_sort(intact.begin(), intact.end(), [](const std::string& a, const std::string& b) {
    return StepOfName(a) < StepOfName(b);
  });
  const std::string example = JoinPath(directory, intact.back());
  if (intact.size() > kNamedMax) intact.erase(intact.begin(), intact.end() - kNamedMax);
  return absl::StrCat("intact checkpoints in ", directory, ": ", absl::StrJoin(intact, ", "),
                      "; name one by its prefix, such as checkpoint.restore=", example);
}

}  // namespace cohort
