#include "coordinator/members/membership_source.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/tf_config.h"

namespace cohort {

namespace {

constexpr absl::Duration kFileInterval = absl::Seconds(1);
constexpr absl::Duration kDnsInterval = absl::Seconds(5);
constexpr char kDns[] = "dns:";

// Sorts the addresses and removes duplicates, so that lists with the same addresses compare equal.
void SortAndTrim(std::vector<std::string>& addresses) {
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
}

// Parses a list with one address per line, in which "#" begins a comment. Errors: INVALID_ARGUMENT
// naming the line.
absl::StatusOr<std::vector<std::string>> ParseLines(absl::string_view text) {
  std::vector<std::string> addresses;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (const auto address = ParseAddress(line); !address.ok()) {
      return Annotate(address.status(), absl::StrCat("line ", number));
    }
    addresses.emplace_back(line);
  }
  return addresses;
}

// Returns the workers' addresses in JSON text that has the form of TF_CONFIG, or of its field
// "cluster".
absl::StatusOr<std::vector<std::string>> ParseJson(absl::string_view text) {
  absl::StatusOr<TfConfig> config = ParseTfConfig(text);
  // If the JSON has no "cluster", it is read as the content of that field.
  if (config.ok() && config->cluster.empty()) {
    config = ParseTfConfig(absl::StrCat("{\"cluster\": ", text, "}"));
  }
  RETURN_IF_ERROR(config.status());
  std::vector<std::string> addresses;
  for (const auto& [task, address] : config->cluster.tasks()) {
    if (task.role == Role::kWorker) addresses.push_back(address);
  }
  return addresses;
}

// A list of workers in a file. A worker that is not in the file leaves the job at once.
// Thread-safe.
class FileMembership final : public MembershipSource {
 public:
  FileMembership(std::string path, FileSystem& files) : path_(std::move(path)), files_(files) {}

  void Read(Done done) override {
    // The file is read at every interval, because it may have been replaced.
    const absl::StatusOr<std::string> text = ReadFile(files_, path_);
    if (!text.ok()) return done(text.status());
    absl::StatusOr<std::vector<std::string>> addresses = ParseMembership(*text);
    if (!addresses.ok()) return done(Annotate(addresses.status(), path_));
    done(std::move(addresses));
  }
  Departure departure() const override { return Departure::kAtOnce; }
  absl::Duration interval() const override { return kFileInterval; }

 private:
  const std::string path_;
  FileSystem& files_;
};

// A list of workers that consists of the addresses of a DNS name, all with the same port.
// Thread-safe.
class DnsMembership final : public MembershipSource {
 public:
  DnsMembership(Address name, HostResolver& resolver)
      : name_(std::move(name)), resolver_(resolver) {}

  void Read(Done done) override {
    resolver_.Resolve(name_.host, [name = name_, done = std::move(done)](
                                      absl::StatusOr<std::vector<std::string>> hosts) mutable {
      if (!hosts.ok()) return done(hosts.status());
      std::vector<std::string> addresses;
      for (const std::string& host : *hosts) {
        addresses.push_back(FormatAddress(Address{host, name.port, ""}));
      }
      SortAndTrim(addresses);
      if (addresses.empty()) {
        return done(absl::NotFoundError(absl::StrCat(name.host, " has no address")));
      }
      done(std::move(addresses));
    });
  }
  Departure departure() const override { return Departure::kWhenLost; }
  absl::Duration interval() const override { return kDnsInterval; }

 private:
  const Address name_;
  HostResolver& resolver_;
};

// Looks up the addresses of a host name with the system's resolver, which may block for seconds.
absl::StatusOr<std::vector<std::string>> Lookup(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    const std::string text = absl::StrCat("cannot resolve ", host, ": ", gai_strerror(error));
    // NOT_FOUND means that the name has no address. All other errors count as temporary.
    return error == EAI_NONAME ? absl::NotFoundError(text) : absl::UnavailableError(text);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text);
    }
  }
  return addresses;
}

}  // namespace

void SystemHostResolver::Resolve(const std::string& host, Done done) {
  thread_.Run([host, done = std::move(done)]() mutable { done(Lookup(host)); });
}

absl::StatusOr<std::vector<std::string>> ParseMembership(absl::string_view text) {
  const bool json = absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
  ASSIGN_OR_RETURN(std::vector<std::string> addresses, json ? ParseJson(text) : ParseLines(text));
  if (addresses.empty()) return absl::InvalidArgumentError("it names no worker");
  SortAndTrim(addresses);
  return addresses;
}

absl::Status CheckMembership(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kDns)) {
    if (!text.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("name a file, or dns:NAME:PORT");
  }
  const absl::StatusOr<Address> name = ParseAddress(text);
  if (name.ok() && name->unix_path.empty() && name->port != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", kDns, text, "' is not dns:NAME:PORT, such as dns:cohort-worker:2222"));
}

std::unique_ptr<MembershipSource> MakeMembershipSource(absl::string_view text, FileSystem& files,
                                                       HostResolver& resolver) {
  if (!absl::ConsumePrefix(&text, kDns)) {
    return std::make_unique<FileMembership>(std::string(text), files);
  }
  return std::make_unique<DnsMembership>(*ParseAddress(text), resolver);
}

}  // namespace cohort
