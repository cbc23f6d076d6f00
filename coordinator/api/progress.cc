#include "coordinator/api/progress.h"

#include <algorithm>

namespace cohort {

proto::IteratorPosition BatchAfter(const DataPosition& begin, int64_t step, const PassShape& pass) {
  // The checkpoint may have been written by a job whose passes have more examples. A position
  // beyond the end of this job's pass counts as the end of the pass.
  const int64_t begun = std::clamp<int64_t>(begin.examples / pass.batch_size, 0, pass.batches);
  proto::IteratorPosition position;
  position.set_epoch(begin.pass + (begun + step) / pass.batches);
  position.set_element((begun + step) % pass.batches);
  return position;
}

}  // namespace cohort
