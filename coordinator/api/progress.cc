#include "coordinator/api/progress.h"

#include <algorithm>

namespace cohort {

proto::IteratorPosition BatchAfter(const DataPosition& begin, int64_t step, const PassShape& pass) {
  // If a job with more examples per pass wrote `begin`, the position may lie beyond this job's
  // pass, which then counts as finished.
  const int64_t begun = std::clamp<int64_t>(begin.examples / pass.batch_size, 0, pass.batches);
  proto::IteratorPosition position;
  position.set_epoch(begin.pass + (begun + step) / pass.batches);
  position.set_element((begun + step) % pass.batches);
  return position;
}

}  // namespace cohort
