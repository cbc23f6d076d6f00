#include "coordinator/inspect/inspect_command.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/cluster/command_line.h"
#include "coordinator/inspect/checkpoint_convert.h"
#include "coordinator/inspect/checkpoint_diff.h"
#include "coordinator/inspect/checkpoint_text.h"
#include "coordinator/inspect/model_file.h"
#include "coordinator/inspect/model_plot.h"
#include "coordinator/inspect/model_shapes.h"
#include "coordinator/inspect/model_summary.h"
#include "coordinator/inspect/text.h"

namespace cohort {

namespace {

constexpr char kModel[] = "model";
constexpr char kCheckpoint[] = "checkpoint";
constexpr char kModelVerbs[] = "show FILE or plot FILE OUT.svg";
constexpr char kCheckpointVerbs[] = "list DIR|PREFIX, show FILE, diff A B or convert FROM TO";

// The result of a command: text for stdout, and the exit code.
struct Found {
  std::string text;
  int code = kExitOk;
};

absl::StatusOr<Found> ShowModel(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const ModelSpec model, ReadModelFile(files, path));
  absl::StatusOr<ModelShapes> shapes = PlanShapes(model);
  if (!shapes.ok()) return Annotate(shapes.status(), path);
  return Found{ModelSummary(model, *shapes)};
}

absl::StatusOr<Found> PlotModel(FileSystem& files, const std::string& path,
                                const std::string& out) {
  if (!absl::EndsWith(out, ".svg")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", out, "' does not end in .svg, the only kind of picture that is written"));
  }
  if (FilePlace(out).IsSame(FilePlace(path))) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", out, "' is the file of the model; name another file for the picture"));
  }
  ASSIGN_OR_RETURN(const ModelSpec model, ReadModelFile(files, path));
  absl::StatusOr<ModelShapes> shapes = PlanShapes(model);
  if (!shapes.ok()) return Annotate(shapes.status(), path);
  ASSIGN_OR_RETURN(const std::string svg, ModelPlot(model, *shapes));
  RETURN_IF_ERROR(WriteFileAtomically(files, out, svg));
  return Found{absl::StrCat("wrote ", out, "\n")};
}

absl::StatusOr<Found> TextOnly(absl::StatusOr<std::string> text) {
  RETURN_IF_ERROR(text.status());
  return Found{*std::move(text)};
}

absl::StatusOr<Found> Diff(FileSystem& files, const std::string& a, const std::string& b) {
  ASSIGN_OR_RETURN(CheckpointDiff diff, DiffCheckpoints(files, a, b));
  return Found{std::move(diff.text), diff.same ? kExitOk : kExitJobFailed};
}

// Runs the verb words[0] of the command `command`.
absl::StatusOr<Found> RunVerb(const std::string& command, const std::vector<std::string>& words,
                              FileSystem& files) {
  const auto is = [&](const char* of, const char* verb, size_t paths) {
    return command == of && words.size() == paths + 1 && words[0] == verb;
  };
  for (const std::string& word : words) RETURN_IF_ERROR(CheckLocalPath(word));
  if (is(kModel, "show", 1)) return ShowModel(files, words[1]);
  if (is(kModel, "plot", 2)) return PlotModel(files, words[1], words[2]);
  if (is(kCheckpoint, "list", 1)) return TextOnly(ListCheckpointText(files, words[1]));
  if (is(kCheckpoint, "show", 1)) return TextOnly(ShowCheckpointText(files, words[1]));
  if (is(kCheckpoint, "diff", 2)) return Diff(files, words[1], words[2]);
  if (is(kCheckpoint, "convert", 2)) return TextOnly(ConvertCheckpoint(files, words[1], words[2]));
  const std::string what =
      words.empty()
          ? absl::StrCat(command, " needs a verb")
          : absl::StrCat("'", words[0], "' is not a verb, or too few or too many words follow it");
  return absl::InvalidArgumentError(
      absl::StrCat(what, "; write ", command == kModel ? kModelVerbs : kCheckpointVerbs));
}

// Returns the exit code of an error. Errors of the system, such as a full disk, are no fault of the
// command line or of a file.
int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
      return kExitJobFailed;
    default:
      return kExitBadConfig;
  }
}

absl::StatusOr<Found> Run(const std::vector<std::string>& arguments, FileSystem& files) {
  const std::string command = arguments.empty() ? kModel : arguments[0];
  const bool is_model = command == kModel;
  std::vector<std::string> words;
  FlagParser parser(absl::StrCat("coordinator ", command),
                    is_model ? "Show a model of Keras, or of a job file, or draw it"
                             : "Look at checkpoints and other files of trained weights");
  parser.AddPositionals("verb", words, is_model ? kModelVerbs : kCheckpointVerbs);
  parser.AddFooter(
      is_model ? "Exit codes: 0 done, 1 the picture cannot be written, 2 bad words or file, "
                 "or a model that is not supported."
               : "Exit codes: 0 done, 1 the files of diff differ or the target cannot be "
                 "written, 2 bad words or file.");
  ASSIGN_OR_RETURN(
      std::optional<PrintAndExit> help,
      parser.Parse({arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()}));
  if (help) return Found{help->text, help->exit_code};
  return RunVerb(command, words, files);
}

}  // namespace

bool IsInspectCommand(absl::string_view word) { return word == kModel || word == kCheckpoint; }

InspectResult RunInspect(const std::vector<std::string>& arguments, FileSystem& files) {
  const absl::StatusOr<Found> found = Run(arguments, files);
  // Names of files and of what is in them stand in messages too.
  if (found.ok()) return {found->code, PrintableLines(found->text), ""};
  return {CodeOf(found.status()), "",
          absl::StrCat("error: ", PrintableLines(found.status().message()), "\n")};
}

}  // namespace cohort
