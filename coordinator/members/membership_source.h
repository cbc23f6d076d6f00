#pragma once

// Sources that list the workers that a running job should have: a file, or a DNS name with one
// address per worker, such as a Kubernetes headless service.
//
// A file has one worker "host:port" per line ("#" begins a comment), or is JSON in the form of
// TF_CONFIG or of its cluster. A worker that is missing from the file leaves the job at once. DNS
// may omit workers that are unreachable for a moment, so a worker that is missing from a DNS name
// leaves only after it is lost.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/base/thread_pool.h"

namespace cohort {

// Looks up the addresses of a host name. Thread-safe.
class HostResolver {
 public:
  // Receives the addresses of the host: IP literals without brackets, in any order.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~HostResolver() = default;
  // Looks up a host name. Errors: NOT_FOUND, UNAVAILABLE.
  virtual void Resolve(const std::string& host, Done done) = 0;
};

// Resolves host names by the machine's own resolver, on a separate thread, because an answer may
// take seconds; the destructor waits for a lookup under way. Thread-safe.
class SystemHostResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override;

 private:
  ThreadPool thread_{{"resolver", 1}};
};

// A source of a list of worker addresses. Thread-safe.
class MembershipSource {
 public:
  // When a worker that is missing from the list leaves the job: at once, or only after it is lost.
  enum class Departure { kAtOnce, kWhenLost };
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~MembershipSource() = default;
  // Reads the list and gives `done` the sorted addresses, at least one. After an error the members
  // of the job do not change.
  virtual void Read(Done done) = 0;
  virtual Departure departure() const = 0;
  virtual absl::Duration interval() const = 0;
};

// Checks the text by which a user names a source: "FILE" or "dns:NAME:PORT". Errors:
// INVALID_ARGUMENT naming the expected form.
absl::Status CheckMembership(absl::string_view text);
// Makes a source from a text that CheckMembership accepts. `files` and `resolver` outlive the
// source.
std::unique_ptr<MembershipSource> MakeMembershipSource(absl::string_view text, FileSystem& files,
                                                       HostResolver& resolver);

// Returns the sorted addresses in the text of a membership file. Errors: INVALID_ARGUMENT naming
// the line or the JSON path, or saying that the text names no worker.
absl::StatusOr<std::vector<std::string>> ParseMembership(absl::string_view text);

}  // namespace cohort
