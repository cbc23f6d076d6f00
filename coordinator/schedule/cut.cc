#include "coordinator/schedule/cut.h"

#include <algorithm>

namespace cohort {

bool Cut::Covers(ClosureId id) const {
  // A cut covers every id that was given before the cut and is not open. Such a closure is done,
  // dropped or durable.
  return id < next && !std::binary_search(open.begin(), open.end(), id);
}

}  // namespace cohort
