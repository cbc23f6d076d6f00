#include "coordinator/members/ctl_command.h"

#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/message_json.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/await.h"
#include "coordinator/members/flight_records.h"

namespace cohort {

namespace {

constexpr char kVerbs[] =
    "status, add-worker [HOST:PORT], remove-worker INDEX|HOST:PORT or flight-record [CALLS] "
    "[FILE...]";
constexpr int kCallsMax = 4096;  // the most calls of a group that a worker keeps

// Makes the error for a wrong command line of `coordinator ctl`. The text ends with the list of
// verbs.
absl::Status Wrong(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(text, "; write ", kVerbs));
}

// Parses the arguments of the verb flight-record: "[CALLS] [FILE...]".
absl::Status ReadFlightWords(std::vector<std::string> words, CtlOptions& options) {
  int calls = 0;
  if (!words.empty() && absl::SimpleAtoi(words.front(), &calls)) {
    if (calls < 1 || calls > kCallsMax) {
      return Wrong(
          absl::StrCat("'", words.front(), "' is not a number of calls from 1 to ", kCallsMax));
    }
    options.calls_max = calls;
    words.erase(words.begin());
  }
  options.files = std::move(words);
  return absl::OkStatus();
}

// Parses the verb and its arguments, and stores them in `options`.
absl::Status ReadVerb(const std::vector<std::string>& words, CtlOptions& options) {
  if (words.empty()) return Wrong("ctl needs a verb");
  const std::string& verb = words.front();
  if (verb == "status" && words.size() == 1) return absl::OkStatus();
  if (verb == "add-worker" && words.size() <= 2) {
    options.verb = CtlOptions::Verb::kAddWorker;
    if (words.size() == 2) options.worker = words[1];
    return words.size() == 2 ? ParseAddress(words[1]).status() : absl::OkStatus();
  }
  if (verb == "remove-worker" && words.size() == 2) {
    options.verb = CtlOptions::Verb::kRemoveWorker;
    absl::string_view index = words[1];
    // "3" and "worker:3" are task indices of a worker. Any other argument must be an address.
    absl::ConsumePrefix(&index, "worker:");
    if (absl::SimpleAtoi(index, &options.index) && options.index >= 0) return absl::OkStatus();
    options.worker = words[1];
    if (ParseAddress(words[1]).ok()) return absl::OkStatus();
    return Wrong(absl::StrCat("'", words[1], "' is neither a task index nor an address"));
  }
  if (verb == "flight-record") {
    options.verb = CtlOptions::Verb::kFlightRecord;
    return ReadFlightWords({words.begin() + 1, words.end()}, options);
  }
  return Wrong(absl::StrCat("'", verb, "' is not a verb, or too few or too many words follow it"));
}

// Reads the address at which the coordinator of this state directory serves operators. Errors:
// NOT_FOUND if there is none.
absl::StatusOr<std::string> AddressIn(const std::string& directory, FileSystem& files) {
  const std::string file = JoinPath(directory, kCtlAddressFile);
  const absl::StatusOr<std::string> text = ReadFile(files, file);
  if (text.ok()) return std::string(absl::StripAsciiWhitespace(*text));
  return absl::NotFoundError(
      absl::StrCat("--state_dir: no coordinator runs with it: ", text.status().message()));
}

template <typename Response, typename Request>
absl::StatusOr<Response> CallCoordinator(World world, Waiter& waiter, const CtlOptions& options,
                                         absl::string_view method, const Request& request) {
  const std::shared_ptr<Channel> channel = world.transport.Connect(options.address, Lane::kControl);
  ASSIGN_OR_RETURN(
      Envelope<Response> answer,
      (Await<Envelope<Response>>(waiter, options.timeout * 2, "the coordinator", [&](auto done) {
        StartCall<Response>(*channel, absl::StrCat("/cohort.proto.CtlService/", method),
                            Envelope<Request>{request, {}}, options.timeout, std::move(done));
      })));
  return std::move(answer.header);
}

absl::StatusOr<std::string> JsonLine(const google::protobuf::Message& answer) {
  ASSIGN_OR_RETURN(const std::string text, MessageToJson(answer));
  return absl::StrCat(text, "\n");
}

// Makes the call that the verb stands for, and returns the coordinator's answer as text or JSON.
absl::StatusOr<std::string> Ask(World world, Waiter& waiter, const CtlOptions& options) {
  if (options.verb == CtlOptions::Verb::kAddWorker) {
    proto::AddWorkerRequest request;
    request.set_address(options.worker);
    ASSIGN_OR_RETURN(const auto added, CallCoordinator<proto::AddWorkerResponse>(
                                           world, waiter, options, "AddWorker", request));
    return absl::StrCat("worker:", added.task().index(),
                        added.was_member() ? " is a worker already\n" : " was added\n");
  }
  if (options.verb == CtlOptions::Verb::kRemoveWorker) {
    proto::RemoveWorkerRequest request;
    request.set_index(options.index);
    request.set_address(options.worker);
    ASSIGN_OR_RETURN(const auto removed, CallCoordinator<proto::RemoveWorkerResponse>(
                                             world, waiter, options, "RemoveWorker", request));
    return absl::StrCat("worker:", removed.task().index(), " was removed\n");
  }
  if (options.verb == CtlOptions::Verb::kFlightRecord) {
    proto::AskFlightRecordsRequest request;
    request.set_calls_max(static_cast<uint32_t>(options.calls_max));
    ASSIGN_OR_RETURN(const auto records, CallCoordinator<proto::AskFlightRecordsResponse>(
                                             world, waiter, options, "AskFlightRecords", request));
    return options.json ? JsonLine(records) : FlightText(records, kNoWorkerOfTheJob);
  }
  ASSIGN_OR_RETURN(const auto status,
                   CallCoordinator<proto::GetJobStatusResponse>(
                       world, waiter, options, "GetJobStatus", proto::GetJobStatusRequest()));
  return options.json ? JsonLine(status) : StatusText(status);
}

// Shows the flight files that the command line names. Calls no coordinator.
CtlResult ShowFlightFiles(FileSystem& files, const CtlOptions& options) {
  const auto records = ReadFlightFiles(files, options.files, options.calls_max);
  if (!records.ok()) {
    return {kExitBadConfig, "", absl::StrCat("error: ", records.status().message(), "\n")};
  }
  if (!options.json) return {kExitOk, FlightText(*records, kNoFileOfIt), ""};
  return {kExitOk, JsonLine(*records).value_or(""), ""};
}

// Returns a line of text with the histogram of the staleness of updates, or an empty text if the
// histogram is empty.
std::string StalenessText(const proto::GetJobStatusResponse& status) {
  if (status.staleness_histogram().empty()) return "";
  std::string text = "staleness of updates, by slice:";
  for (int bucket = 0; bucket < status.staleness_histogram_size(); ++bucket) {
    // Bucket 0 counts updates with staleness 0. Bucket b counts those from 2^(b-1) to 2^b - 1.
    const uint64_t low = bucket == 0 ? 0 : uint64_t{1} << (bucket - 1);
    const uint64_t high = bucket == 0 ? 0 : 2 * low - 1;
    absl::StrAppend(&text, " ", low, high > low ? absl::StrCat("-", high) : "", ": ",
                    status.staleness_histogram(bucket));
  }
  return absl::StrCat(text, "; largest ", status.staleness_max(), "\n");
}

}  // namespace

absl::StatusOr<CtlCommand> ParseCtlCommandLine(const std::vector<std::string>& arguments,
                                               FileSystem& files) {
  CtlOptions options;
  std::string state_directory, timeout = "60s";
  std::vector<std::string> words;
  FlagParser parser("coordinator ctl", "See a running job of Cohort and change its workers");
  parser.AddPositionals("verb", words, kVerbs);
  parser.Add("address", options.address, "HOST:PORT where the coordinator serves operators");
  parser.Add("state_dir", state_directory, "State directory of a coordinator with local tasks");
  parser.Add("timeout", timeout, "How long the answer may take; default 60s");
  parser.Add("json", options.json,
             "Print the answer to status or flight-record as one line of JSON");
  parser.AddFooter("Exit codes: 0 done, 1 refused, 2 bad options, 4 no coordinator answers.");
  ASSIGN_OR_RETURN(std::optional<PrintAndExit> help, parser.Parse(arguments));
  if (help) return *std::move(help);
  RETURN_IF_ERROR(ReadVerb(words, options));
  if (!options.files.empty()) {
    if (options.address.empty() && state_directory.empty()) return options;
    return absl::InvalidArgumentError(absl::StrCat(
        "flight-record ", options.files.front(),
        ": a file is read without a coordinator; leave out --address and --state_dir"));
  }
  // The command line must have either --address or --state_dir, and not both.
  if (options.address.empty() == state_directory.empty()) {
    return absl::InvalidArgumentError("name the coordinator: --address HOST:PORT or --state_dir");
  }
  ASSIGN_OR_RETURN(options.timeout, TimeoutFromText(timeout));
  // --timeout 0 means no limit. A limit of one day stands for that.
  if (options.timeout == absl::ZeroDuration()) options.timeout = absl::Hours(24);
  if (options.address.empty()) {
    RETURN_IF_ERROR(Annotate(CheckLocalPath(state_directory), "--state_dir"));
    ASSIGN_OR_RETURN(options.address, AddressIn(state_directory, files));
  }
  RETURN_IF_ERROR(ParseAddress(options.address).status());
  return options;
}

CtlResult RunCtl(World world, Waiter& waiter, const CtlOptions& options) {
  if (!options.files.empty()) return ShowFlightFiles(world.files, options);
  const absl::StatusOr<std::string> answer = Ask(world, waiter, options);
  CtlResult result;
  if (answer.ok()) {
    result.output = *answer;
    return result;
  }
  // These three codes mean that no coordinator has answered. If a coordinator refuses, its error
  // has another code.
  const bool unheard = absl::IsUnavailable(answer.status()) ||
                       absl::IsDeadlineExceeded(answer.status()) ||
                       absl::IsUnimplemented(answer.status());
  result.code = unheard ? kExitLostCluster : kExitJobFailed;
  result.error = absl::StrCat("error: ", options.address, ": ", answer.status().message(), "\n");
  return result;
}

std::string StatusText(const proto::GetJobStatusResponse& status) {
  std::string text = absl::StrCat("job ", status.job(), " epoch ", status.epoch(), "\n");
  for (const proto::MemberStatus& member : status.members()) {
    absl::StrAppend(&text, member.task().role(), ":", member.task().index());
    if (member.state() == proto::MEMBER_SERVING) {
      // A local task whose process has just ended counts as serving until its loss is known.
      const std::string where = member.address().empty()
                                    ? std::string(", its next process is starting,")
                                    : absl::StrCat(" at ", member.address());
      absl::StrAppend(&text, " serving", where, " incarnation ", member.task().incarnation());
    } else {
      absl::StrAppend(&text, member.state() == proto::MEMBER_LEAVING ? " leaving" : " away", " (",
                      member.text(), ")");
    }
    if (member.task().role() == RoleName(Role::kWorker)) {
      absl::StrAppend(&text, " done ", member.closures_done(), " in_flight ", member.in_flight());
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "workers: at least ", status.min_workers(), ", at most ");
  if (status.max_workers() == std::numeric_limits<int>::max()) {
    absl::StrAppend(&text, "any number\n");
  } else {
    absl::StrAppend(&text, status.max_workers(), "\n");
  }
  absl::StrAppend(&text, "closures: done ", status.closures_done(), " queued ",
                  status.closures_queued(), " in_flight ", status.closures_in_flight(),
                  " put_back ", status.closures_put_back(), " failed ", status.closures_failed(),
                  "; recoveries ", status.recoveries(), "\n", StalenessText(status),
                  "waits: ", status.waits(), "\n");
  return text;
}

}  // namespace cohort
