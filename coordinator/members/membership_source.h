#pragma once

// Sources of a list of the workers that a running job should have: a file, or a DNS name with one
// address per worker, such as a headless service of Kubernetes.
//
// A file has one worker "host:port" per line ("#" begins a comment), or is JSON in the form of
// TF_CONFIG or of its field "cluster". If a worker is missing from the file, it leaves the job at
// once. A DNS name may omit workers that cannot be reached for a moment. So if a worker is missing
// from a DNS name, it leaves only once it is lost.

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
  // A callback that gets the addresses of the host: IP addresses without brackets, in any order.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~HostResolver() = default;
  // Looks up the addresses of a host name. Errors: NOT_FOUND if it has none; UNAVAILABLE.
  virtual void Resolve(const std::string& host, Done done) = 0;
};

// Looks up host names with the machine's resolver. A thread of its own does so, because a lookup
// may take seconds. The destructor waits for a lookup under way. Thread-safe.
class SystemHostResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override;

 private:
  ThreadPool thread_{{"resolver", 1}};
};

// A source of a list of workers' addresses. Thread-safe.
class MembershipSource {
 public:
  // The time at which a worker that is missing from the list leaves the job: at once, or once it is
  // lost.
  enum class Departure { kAtOnce, kWhenLost };
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~MembershipSource() = default;
  // Reads the list, and calls `done` with the sorted addresses, of which there is at least one. If
  // `done` gets an error, the job's members stay as they are.
  virtual void Read(Done done) = 0;
  virtual Departure departure() const = 0;
  virtual absl::Duration interval() const = 0;
};

// Checks a text that names a source: "FILE" or "dns:NAME:PORT". Errors: INVALID_ARGUMENT naming the
// expected form.
absl::Status CheckMembership(absl::string_view text);
// Makes the source that `text` names. CheckMembership must accept the text. `files` and `resolver`
// outlive the source.
std::unique_ptr<MembershipSource> MakeMembershipSource(absl::string_view text, FileSystem& files,
                                                       HostResolver& resolver);

// Returns the sorted addresses in the text of a membership file. Errors: INVALID_ARGUMENT, naming
// the line or the place in the JSON, or if the text names no worker.
absl::StatusOr<std::vector<std::string>> ParseMembership(absl::string_view text);

}  // namespace cohort
