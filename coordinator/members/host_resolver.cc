#include "coordinator/members/host_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

absl::StatusOr<std::vector<std::string>> Lookup(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    const std::string text = absl::StrCat("cannot resolve ", host, ": ", gai_strerror(error));
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

}  // namespace cohort
