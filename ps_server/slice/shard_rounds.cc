// Synchronous pushes: a slice applies the first so many of a round as one, once.

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "ps_server/slice/variable_shard.h"

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
  // An error has taken others from the round: what is kept is enough by now.
  if (round_.size() >= context.aggregate) return std::nullopt;
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
  if (context.round > round_.round()) {
    round_.Begin(context.round);
    before_.Forget();  // all slices have that round now, or none will
  }
  RoundPushes::Part part;
  if (rows.has_value()) {
    part.kind = RoundPushes::Kind::kSomeRows;
    part.rows.assign(rows->begin(), rows->end());
  } else if (context.assign) {
    part.kind = RoundPushes::Kind::kValue;
  }
  if (round_.kind().value_or(part.kind) != part.kind) {
    return absl::InvalidArgumentError(absl::StrCat(layout_.ToString(), " gets pushes of two kinds ",
                                                   "(all rows, some rows, values) in round ",
                                                   context.round));
  }
  Applied applied;
  applied.version_before = history_.version;
  if (round_.size() == 0 && context.aggregate <= 1) {  // it alone is the round, as it comes
    const RoundPushes::Joined alone = {{context.closure_id}, part.kind, std::move(part.rows), {}};
    ApplyRoundLocked(alone, gradient, context);
    return applied;
  }
  part.elements = Buffer::Allocate(bytes);
  gradient.CopyTo(part.elements->data(), bytes);
  round_.Keep(context.closure_id, std::move(part));
  applied.kept = round_.size() < context.aggregate;
  if (applied.kept) return applied;
  const auto update = context.assign ? ReplicaUpdate::kAssign : ReplicaUpdate::kPush;
  const ReplicaContext replicas{layout_.variable, layout_.rule, layout_.aggregation, update};
  const RoundPushes::Joined joined = round_.Take(replicas.How(), layout_.dtype);
  PayloadCursor cursor(joined.elements);
  ApplyRoundLocked(joined, cursor, context);
  return applied;
}

void VariableShard::ForgetRoundsLocked() {
  round_ = RoundPushes();
  before_.Forget();
}

void VariableShard::ApplyRoundLocked(const RoundPushes::Joined& pushes, PayloadCursor& elements,
                                     const UpdateContext& context) {
  const bool some_rows = pushes.kind == RoundPushes::Kind::kSomeRows;
  ValueBefore::Of of = {context.round, history_.version, RowBytes(), page_rows_,
                        layout_.rows.begin};
  if (rows_ != nullptr) of.now = rows_->now();
  if (some_rows && (rows_ != nullptr || !layout_.rule_spec.sweeps)) {
    before_.KeepRows(of, pushes.rows, [&](absl::Span<const int64_t> rows, absl::Span<std::byte> out)
                                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                            ReadRowsLocked(rows, of.now, out);
                                          });
  } else {
    before_.KeepAll(of, value_);
  }
  if (pushes.kind == RoundPushes::Kind::kValue) {
    value_.Replace([&](std::byte* out, size_t size) { elements.CopyTo(out, size); });
  } else if (some_rows) {
    UpdateRowsLocked(pushes.rows, elements, context);
  } else {
    UpdateAllLocked(elements, context);
  }
  history_.round = context.round;
  ++history_.version;
  // Where there is no room, a repeat counts as dropped.
  for (const uint64_t closure : pushes.closures) history_.applied.Insert(closure).IgnoreError();
}

}  // namespace cohort
