#pragma once

// The vectorised loops of the update rules of rules/updates.h on the processor.

#include "absl/types/span.h"
#include "common/runtime/update/rules/updates.h"
#include "common/runtime/update/update_kernel.h"

namespace cohort {

void RunLoop(const SgdUpdate& update);
void RunLoop(const MomentumUpdate& update);
void RunLoop(const AdagradUpdate& update);
void RunLoop(const RowwiseAdagradUpdate& update);
void RunLoop(const AdadeltaUpdate& update);
void RunLoop(const RmspropUpdate& update);
void RunLoop(const AdamUpdate& update);
void RunLoop(const AdamaxUpdate& update);
void RunLoop(const NadamUpdate& update);
void RunLoop(const LionUpdate& update);
void RunLoop(const FtrlUpdate& update);
void RunLoop(const AddUpdate& update);
void RunLoop(const AverageUpdate& update);
void RunLoop(const KeepUpdate& update);

// The values that all rows of one call of AdagradRowsLoop share: the row width, and the share that
// weight decay takes of each value.
struct RowsSpan {
  int64_t width;
  float decay;
};
void AdagradRowsLoop(absl::Span<const RowUpdate> rows, const RowsSpan& span,
                     const AdagradRates& rates);

}  // namespace cohort
