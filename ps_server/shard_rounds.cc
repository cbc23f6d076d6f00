// Synchronous pushes: a slice applies the mean of the first so many of a round, once.

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/variable_shard.h"

namespace cohort {

std::optional<VariableShard::Applied> VariableShard::LateOrRepeatedLocked(
    const UpdateContext& context) {
  Applied applied;
  applied.version_before = history_.version;
  // A later round has begun where its coordinator gave this one up.
  if (context.round <= history_.round || context.round < round_.round()) {
    // That it was late is remembered like a push that was applied, so that a repeat is one. Where
    // there is no room to, the round says all the same that it is never applied.
    applied.dropped = history_.applied.Insert(context.closure_id).value_or(false);
    applied.duplicate = !applied.dropped;
    return applied;
  }
  if (context.round != round_.round() || !round_.Has(context.closure_id)) return std::nullopt;
  applied.duplicate = applied.kept = true;
  return applied;
}

absl::StatusOr<VariableShard::Applied> VariableShard::ApplyInRoundLocked(
    const std::optional<absl::Span<const int64_t>>& rows, PayloadCursor& gradient,
    const UpdateContext& context, AskGate gate) {
  const size_t bytes = rows.has_value() ? rows->size() * RowBytes() : num_bytes_;
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  if (const std::optional<Applied> known = LateOrRepeatedLocked(context)) {
    gradient.Skip(bytes);
    return *known;
  }
  if (context.round > round_.round()) round_.Begin(context.round);
  if (round_.IsOfAllRows().value_or(!rows.has_value()) == rows.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        layout_.ToString(), " gets pushes of all rows and of some in round ", context.round));
  }
  RoundMean::Part part;
  if (rows.has_value()) part.rows.emplace(rows->begin(), rows->end());
  part.gradient = Buffer::Allocate(bytes);
  gradient.CopyTo(part.gradient->data(), bytes);
  round_.Keep(context.closure_id, std::move(part));
  Applied applied;
  applied.version_before = history_.version;
  applied.kept = round_.size() < context.aggregate;
  if (!applied.kept) ApplyRoundLocked(context);
  return applied;
}

void VariableShard::ApplyRoundLocked(const UpdateContext& context) {
  const RoundMean::Mean mean = round_.Take();
  PayloadCursor cursor(mean.gradient);
  if (mean.rows.has_value()) {
    ApplyFloatRowsLocked(*mean.rows, cursor, context);
  } else {
    ApplyFloatsLocked(cursor, context);
  }
  history_.round = context.round;
  ++history_.version;
  // Where there is no room, a repeat counts as dropped.
  for (const uint64_t closure : mean.closures) history_.applied.Insert(closure).IgnoreError();
}

}  // namespace cohort
