#include "common/runtime/update/update_loops.h"

#include "common/runtime/update/rules/adagrad_bodies.h"
#include "common/runtime/update/rules/adam_bodies.h"
#include "common/runtime/update/rules/ftrl_bodies.h"
#include "common/runtime/update/rules/loop_over_body.h"
#include "common/runtime/update/rules/sgd_bodies.h"

namespace cohort {

// Each function is compiled for several instruction sets; the loop is inlined into each version.
COHORT_SIMD void RunLoop(const SgdUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const MomentumUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdagradUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdadeltaUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const RmspropUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdamUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdamaxUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const NadamUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const FtrlUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AddUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AverageUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const KeepUpdate& update) { LoopOverBody(update); }

}  // namespace cohort
