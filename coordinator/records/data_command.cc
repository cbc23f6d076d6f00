#include "coordinator/records/data_command.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/cluster/command_line.h"
#include "common/records/index_store.h"
#include "coordinator/inspect/text.h"
#include "coordinator/records/convert_records.h"
#include "coordinator/records/data_file.h"
#include "coordinator/records/record_values.h"
#include "nlohmann/json.hpp"

namespace cohort {

namespace {

using nlohmann::ordered_json;

constexpr char kVerbs[] =
    "head FILE, count FILE..., check FILE..., index FILE... or convert FROM TO";
constexpr size_t kDamageMax = 20;      // damaged records of a file that are named
constexpr size_t kShownValueMax = 60;  // bytes of a value in a table

struct Request {
  std::vector<std::string> words;
  bool as_json = false;
  int records = 5;
};

// The result of a command: what it found as JSON, the same as text, and the exit code.
struct Answer {
  ordered_json json;
  std::string text;
  int code = kExitOk;
};

// Returns the values of a record for people.
absl::StatusOr<ordered_json> Shown(const DataFile& file, const ScannedRecord& record) {
  RETURN_IF_ERROR(record.content.status());
  const absl::string_view content = *record.content;
  if (file.kind == DataKind::kTfRecord) {
    const absl::StatusOr<RecordValues> values = ValuesOfExample(content);
    // A TFRecord may hold anything.
    if (!values.ok()) return ToJson({{"bytes", std::vector<std::string>{std::string(content)}}});
    return ToJson(*values);
  }
  if (file.kind == DataKind::kText) {
    return ToJson({{"text", std::vector<std::string>{std::string(content)}}});
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> fields, FieldsOfCsv(content, file.delimiter));
  return ToJson({{"fields", fields}});
}

absl::StatusOr<Answer> Head(FileSystem& files, const Request& request) {
  ASSIGN_OR_RETURN(const DataFile file, RecognizeDataFile(files, request.words[1]));
  Answer answer;
  answer.json = ordered_json::array();
  TextTable table({"record #", "name", "values"});
  absl::Status status;
  const auto take = [&](const ScannedRecord& record) {
    if (record.number >= static_cast<uint64_t>(request.records)) return false;
    absl::StatusOr<ordered_json> shown = Shown(file, record);
    status = Annotate(shown.status(), absl::StrCat(file.path, ": record ", record.number));
    if (!status.ok()) return false;
    for (const auto& [name, values] : shown->items()) {
      table.Add({{absl::StrCat(record.number)},
                 {Printable(name, kShownNameMax)},
                 {Printable(values.dump(-1, ' ', /*ensure_ascii=*/true), kShownValueMax)}});
    }
    answer.json.push_back(*std::move(shown));
    return true;
  };
  RETURN_IF_ERROR(file.Scan(files, take));
  RETURN_IF_ERROR(status);
  answer.text = absl::StrCat(
      file.path, ": ", DataKindName(file.kind), ", ",
      file.compression == FileCompression::kNone ? "not packed" : CompressionName(file.compression),
      "\n", table.ToText());
  return answer;
}

// The findings of one reading of a file from front to back.
struct Reading {
  DataFile file;
  uint64_t records = 0;
  uint64_t bytes = 0;
  std::vector<std::string> damage;
};

Reading ReadWhole(FileSystem& files, const std::string& path) {
  Reading reading;
  const absl::StatusOr<DataFile> file = RecognizeDataFile(files, path);
  if (!file.ok()) {
    reading.file.path = path;
    reading.damage.emplace_back(file.status().message());
    return reading;
  }
  reading.file = *file;
  size_t damaged = 0;
  const absl::Status scanned = file->Scan(files, [&](const ScannedRecord& record) {
    ++reading.records;
    if (record.content.ok()) {
      reading.bytes += record.content->size();
    } else if (++damaged <= kDamageMax) {
      reading.damage.push_back(absl::StrCat("record ", record.number, " at byte ", record.offset,
                                            ": ", record.content.status().message()));
    }
    return true;
  });
  if (damaged > kDamageMax) {
    reading.damage.push_back(absl::StrCat("and ", damaged - kDamageMax, " more damaged records"));
  }
  if (!scanned.ok()) reading.damage.emplace_back(scanned.message());
  return reading;
}

Answer CountOrCheck(FileSystem& files, const Request& request) {
  const bool checks = request.words[0] == "check";
  Answer answer;
  answer.json = ordered_json::array();
  TextTable table({"file", "format", "packed", "records #", "bytes of records #", "damage"});
  uint64_t all = 0;
  for (size_t i = 1; i < request.words.size(); ++i) {
    const Reading reading = ReadWhole(files, request.words[i]);
    all += reading.records;
    const std::string packed(CompressionName(reading.file.compression));
    answer.json.push_back({{"file", Printable(reading.file.path, kShownNameMax)},
                           {"format", DataKindName(reading.file.kind)},
                           {"compression", packed},
                           {"records", reading.records},
                           {"bytes", reading.bytes},
                           {"damage", ordered_json::array()}});
    TextTable::Cell damage;
    for (const std::string& one : reading.damage) {
      damage.push_back(Printable(one, 400));
      answer.json.back()["damage"].push_back(damage.back());
    }
    if (!reading.damage.empty()) answer.code = kExitJobFailed;
    table.Add({{Printable(reading.file.path, kShownNameMax)},
               {DataKindName(reading.file.kind)},
               {packed},
               {WithCommas(static_cast<int64_t>(reading.records))},
               {WithCommas(static_cast<int64_t>(reading.bytes))},
               damage.empty() ? TextTable::Cell{"none"} : damage});
  }
  answer.text = absl::StrCat(table.ToText(), WithCommas(static_cast<int64_t>(all)), " records",
                             checks && answer.code == kExitOk ? ", no damage\n" : "\n");
  return answer;
}

absl::StatusOr<Answer> Index(FileSystem& files, const Request& request) {
  Answer answer;
  answer.json = ordered_json::array();
  TextTable table({"file", "records #", "restart points #"});
  IndexStore store(files, /*cache_directory=*/"");
  for (size_t i = 1; i < request.words.size(); ++i) {
    const std::string& path = request.words[i];
    ASSIGN_OR_RETURN(const DataFile file, RecognizeDataFile(files, path));
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> opened, files.Open(path));
    ASSIGN_OR_RETURN(const FileIndex index,
                     store.Get(*opened, path, file.format(), file.compression));
    if (!files.Open(absl::StrCat(path, kIndexEnding)).ok()) {
      return absl::PermissionDeniedError(
          absl::StrCat(path, kIndexEnding, ": cannot be written beside the file"));
    }
    answer.json.push_back({{"file", Printable(path, kShownNameMax)},
                           {"records", index.records.records},
                           {"restart_points", index.unpacked.points.size()}});
    table.Add({{Printable(path, kShownNameMax)},
               {WithCommas(static_cast<int64_t>(index.records.records))},
               {WithCommas(static_cast<int64_t>(index.unpacked.points.size()))}});
  }
  answer.text = table.ToText();
  return answer;
}

absl::StatusOr<Answer> Convert(FileSystem& files, const Request& request) {
  ASSIGN_OR_RETURN(const int64_t records,
                   ConvertRecords(files, request.words[1], request.words[2]));
  Answer answer;
  answer.json = {{"file", Printable(request.words[2], kShownNameMax)}, {"records", records}};
  answer.text = absl::StrCat("wrote ", WithCommas(records), " records to ", request.words[2], "\n");
  return answer;
}

absl::StatusOr<Answer> RunVerb(FileSystem& files, const Request& request) {
  const std::vector<std::string>& words = request.words;
  for (const std::string& word : words) RETURN_IF_ERROR(CheckLocalPath(word));
  const std::string verb = words.empty() ? "" : words[0];
  if (request.records < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--records is ", request.records, "; it must be at least 1"));
  }
  if (verb == "head" && words.size() == 2) return Head(files, request);
  if ((verb == "count" || verb == "check") && words.size() > 1) {
    return CountOrCheck(files, request);
  }
  if (verb == "index" && words.size() > 1) return Index(files, request);
  if (verb == "convert" && words.size() == 3) return Convert(files, request);
  return absl::InvalidArgumentError(absl::StrCat(
      words.empty()
          ? "data needs a verb"
          : absl::StrCat("'", verb, "' is not a verb, or too few or too many words follow it"),
      "; write ", kVerbs));
}

absl::StatusOr<Answer> Run(const std::vector<std::string>& arguments, FileSystem& files) {
  Request request;
  FlagParser parser("coordinator data", "Look at, count, check, index or convert files of records");
  parser.AddPositionals("verb", request.words, kVerbs);
  parser.Add("json", request.as_json, "Print JSON, not a table");
  parser.Add("records", request.records, "How many records head shows; default 5");
  parser.AddFooter(
      "Exit codes: 0 done, 1 check has found damage or the target cannot be written, 2 bad words "
      "or file.");
  ASSIGN_OR_RETURN(
      std::optional<PrintAndExit> help,
      parser.Parse({arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()}));
  if (help) return Answer{{}, help->text, help->exit_code};
  ASSIGN_OR_RETURN(Answer answer, RunVerb(files, request));
  if (request.as_json) answer.text = answer.json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
  return answer;
}

}  // namespace

InspectResult RunDataCommand(const std::vector<std::string>& arguments, FileSystem& files) {
  const absl::StatusOr<Answer> answer = Run(arguments, files);
  if (answer.ok()) return {answer->code, PrintableLines(answer->text), ""};
  const bool of_system = absl::IsInternal(answer.status()) || absl::IsUnknown(answer.status()) ||
                         absl::IsUnavailable(answer.status());
  return {of_system ? kExitJobFailed : kExitBadConfig, "",
          absl::StrCat("error: ", PrintableLines(answer.status().message()), "\n")};
}

}  // namespace cohort
