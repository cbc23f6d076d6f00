#pragma once

// Sources for the list of a job's workers while it runs: a file, or a DNS name with one address per
// worker, such as a Kubernetes headless service.
//
// A file has one worker "host:port" a line ("#" begins a comment), or is JSON in the form of
// TF_CONFIG or of its cluster. The file decides alone: a worker that is not in it leaves. A DNS
// name forgets workers that are away for a moment, so a worker that vanishes from it leaves only
// once it is lost.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/base/thread_pool.h"

namespace cohort {

// Asks what addresses a host name has. Thread-safe.
class HostResolver {
 public:
  // IP literals without brackets, in any order.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~HostResolver() = default;
  // Errors: NOT_FOUND, UNAVAILABLE.
  virtual void Resolve(const std::string& host, Done done) = 0;
};

// The machine's own, on a thread of its own, because an answer may take seconds. The destructor
// waits for it. Thread-safe.
class SystemHostResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override;

 private:
  ThreadPool thread_{{"resolver", 1}};
};

// Thread-safe.
class MembershipSource {
 public:
  // The time at which a worker that is no longer on the list leaves.
  enum class Departure { kAtOnce, kWhenLost };
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~MembershipSource() = default;
  // Reads the addresses, sorted, at least one. Errors: whatever is wrong; nothing changes then.
  virtual void Read(Done done) = 0;
  virtual Departure departure() const = 0;
  virtual absl::Duration interval() const = 0;
};

// Checks "FILE" or "dns:NAME:PORT". Errors: INVALID_ARGUMENT saying what is wanted.
absl::Status CheckMembership(absl::string_view text);
// Makes a source for text that CheckMembership accepts. `files` and `resolver` outlive it.
std::unique_ptr<MembershipSource> MakeMembershipSource(absl::string_view text, FileSystem& files,
                                                       HostResolver& resolver);

// Returns the addresses in a membership file's text, sorted. Errors: INVALID_ARGUMENT naming the
// line or the JSON path, or that there are none.
absl::StatusOr<std::vector<std::string>> ParseMembership(absl::string_view text);

}  // namespace cohort
