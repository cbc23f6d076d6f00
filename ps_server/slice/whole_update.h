#pragma once

// An update of a slice under a rule that needs the whole variable (UpdateRuleSpec::whole). The
// pages of value and slots are copied together, updated at once, and copied back: the rule cannot
// be applied page by page. Such a rule costs these copies at each step.

#include <cstddef>
#include <vector>

#include "common/runtime/update/sparse_update.h"
#include "common/runtime/update/update_kernel.h"
#include "ps_server/slice/paged_value.h"

namespace cohort {

// Applies `step`, which has the gradient of all elements and everything else but the spans of value
// and slots, to the value and the slots of a slice. Pages that are being read keep their content.
void UpdateWhole(const UpdateKernel& kernel, UpdateStep step, PagedValue& value,
                 std::vector<PagedValue>& slots);

// Returns a gradient of `count` elements with the given rows, and zeros in all other rows. The rows
// are positions in the slice.
std::vector<float> WithAllRows(const MergedRows& gradients, size_t count);

}  // namespace cohort
