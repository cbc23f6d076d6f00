// The one function of Abseil by which a thread lets go of an absl::Status, compiled here once more,
// so that ThreadSanitizer sees it. Linked into the tests of the tsan preset only.
//
// Copies of a failed status share a StatusRep with an atomic count. Copying counts up in a header,
// which our build instruments; counting down and deleting is in Debian's libabsl_status.so, which
// is not. The sanitizer saw the deletion but not the count that orders it after the other thread's
// last use, and reported a race that does not exist. This definition takes the place of the
// library's in the whole process (the dynamic linker looks into the program first), with the same
// steps. So nothing is suppressed: a status that really is used without order is still reported.

#include <atomic>
#include <cstdint>

#include "absl/base/config.h"
#include "absl/status/status.h"

#ifndef __SANITIZE_THREAD__
#error "for the tsan preset only"
#endif

// Internals of exactly this release; look at its status.cc before another one is let in.
static_assert(ABSL_LTS_RELEASE_VERSION == 20220623);

namespace absl {
ABSL_NAMESPACE_BEGIN

void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* const shared = RepToPointer(rep);
  // The only holder needs no count: nobody else can take a reference any more.
  if (shared->ref.load(std::memory_order_acquire) == 1 ||
      shared->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete shared;
  }
}

ABSL_NAMESPACE_END
}  // namespace absl
