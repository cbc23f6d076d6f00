#include "common/cluster/address.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"

namespace cohort {

namespace {

constexpr int kPortMax = 65535;
// The longest path of a Unix socket: the size of sockaddr_un's sun_path without the final zero
// byte.
constexpr size_t kUnixPathMax = 107;

// Returns the error for a text that is not an address, with an excerpt of the text and the accepted
// forms.
absl::Status Bad(absl::string_view text, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(text),
                                                 "' is not an address: ", problem,
                                                 "; write host:port, [IPv6]:port or unix:PATH"));
}

absl::StatusOr<int> ParsePort(absl::string_view text, absl::string_view port) {
  if (port.empty()) return Bad(text, "the port is missing");
  int number = 0;
  // SimpleAtoi would also accept a sign and white space, so the port must consist of digits.
  const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) || number > kPortMax) {
    return Bad(text, absl::StrCat("port '", Excerpt(port), "' is not a number from 0 to 65535"));
  }
  return number;
}

absl::StatusOr<Address> ParseUnix(absl::string_view text) {
  absl::string_view path = absl::StripPrefix(text, "unix:");
  // gRPC also accepts "unix://" before an absolute path, so ParseAddress accepts it too.
  if (absl::StartsWith(path, "//")) path.remove_prefix(2);
  if (path.empty()) return Bad(text, "the path is missing");
  if (path.size() > kUnixPathMax) return Bad(text, "the path is longer than 107 bytes");
  Address address;
  address.unix_path = std::string(path);
  return address;
}

absl::StatusOr<Address> ParseIpv6(absl::string_view text) {
  const size_t close = text.find(']');
  if (close == absl::string_view::npos) return Bad(text, "the closing ']' is missing");
  Address address;
  address.host = std::string(text.substr(1, close - 1));
  in6_addr unused;
  // inet_pton does not accept an IPv6 zone such as "%eth0", so the zone is cut off.
  const std::string number = address.host.substr(0, address.host.find('%'));
  if (inet_pton(AF_INET6, number.c_str(), &unused) != 1) {
    return Bad(text, absl::StrCat("'", Excerpt(address.host), "' is not an IPv6 address"));
  }
  const absl::string_view rest = text.substr(close + 1);
  if (!absl::StartsWith(rest, ":")) return Bad(text, "the port is missing");
  auto port = ParsePort(text, rest.substr(1));
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

// Returns true if a host may contain `c`. DNS host names have no '_', but container names may have
// one, so '_' is accepted.
bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

}  // namespace

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  if (text.empty()) return Bad(text, "it is empty");
  if (absl::StartsWith(text, "unix:")) return ParseUnix(text);
  if (absl::StrContains(text, "://")) return Bad(text, "a scheme does not belong here");
  if (text.front() == '[') return ParseIpv6(text);
  // The last colon separates host and port. A host that contains a colon is an IPv6 literal without
  // brackets, which is refused.
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Bad(text, "the port is missing");
  const absl::string_view host = text.substr(0, colon);
  if (host.empty()) return Bad(text, "the host is missing");
  if (absl::StrContains(host, ":")) return Bad(text, "an IPv6 host needs brackets");
  if (!std::all_of(host.begin(), host.end(), IsHostCharacter)) {
    return Bad(text, "the host has a character that no host name has");
  }
  auto port = ParsePort(text, text.substr(colon + 1));
  if (!port.ok()) return port.status();
  Address address;
  address.host = std::string(host);
  address.port = *port;
  return address;
}

bool IsLoopback(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  const std::string text(host);
  in_addr four = {};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six = {};
  return inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Address ListenAddressOf(const Address& own) {
  Address listen = own;
  if (own.unix_path.empty() && !IsLoopback(own.host)) {
    // A task with an IPv6 host listens on all IPv6 interfaces, any other task on all IPv4
    // interfaces.
    listen.host = absl::StrContains(own.host, ":") ? "::" : "0.0.0.0";
  }
  return listen;
}

std::string FormatAddress(const Address& address) {
  if (!address.unix_path.empty()) return absl::StrCat("unix:", address.unix_path);
  const bool bracket = absl::StrContains(address.host, ":");
  return absl::StrCat(bracket ? "[" : "", address.host, bracket ? "]:" : ":", address.port);
}

}  // namespace cohort
