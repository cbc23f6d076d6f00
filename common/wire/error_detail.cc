#include "common/wire/error_detail.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace cohort {

namespace {

// The key of the Status payload that holds the ErrorDetail.
constexpr absl::string_view kDetailUrl = "type.googleapis.com/cohort.proto.ErrorDetail";

}  // namespace

absl::Status WithDetail(const absl::Status& status, const proto::ErrorDetail& detail) {
  absl::Status result = status;
  if (!result.ok()) result.SetPayload(kDetailUrl, absl::Cord(detail.SerializeAsString()));
  return result;
}

absl::Status MakeError(absl::StatusCode code, absl::string_view message,
                       proto::ErrorClass error_class) {
  proto::ErrorDetail detail;
  detail.set_error_class(error_class);
  return WithDetail(absl::Status(code, message), detail);
}

proto::ErrorDetail DetailOf(const absl::Status& status) {
  proto::ErrorDetail detail;
  const absl::optional<absl::Cord> payload = status.GetPayload(kDetailUrl);
  // A peer's ErrorDetail that does not parse counts as no detail.
  if (payload.has_value() && !detail.ParseFromString(std::string(*payload))) detail.Clear();
  return detail;
}

proto::ErrorClass ClassOf(const absl::Status& status) { return DetailOf(status).error_class(); }

absl::Status WithOrigin(const absl::Status& status, const proto::TaskRef& origin) {
  if (status.ok()) return status;
  proto::ErrorDetail detail = DetailOf(status);
  if (detail.has_origin()) return status;
  *detail.mutable_origin() = origin;
  return WithDetail(status, detail);
}

absl::Status Attributed(const absl::Status& status, proto::ErrorClass otherwise,
                        const proto::TaskRef& origin) {
  if (status.ok()) return status;
  proto::ErrorDetail detail = DetailOf(status);
  if (detail.error_class() == proto::ERROR_CLASS_UNKNOWN) detail.set_error_class(otherwise);
  if (!detail.has_origin()) *detail.mutable_origin() = origin;
  return WithDetail(status, detail);
}

absl::Status AttributedCall(const absl::Status& status, const proto::TaskRef& task) {
  // A task that does not answer a call in time, or does not answer at all, counts as lost.
  const bool unreachable =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  const proto::ErrorClass lost = task.role() == "ps" ? proto::PS_LOST : proto::WORKER_LOST;
  return Attributed(status, unreachable ? lost : proto::APPLICATION, task);
}

bool FailedOnItsWay(const absl::Status& status) {
  return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsCancelled(status));
}

std::string TaskName(const proto::TaskRef& task) {
  std::string name = absl::StrCat(task.role(), ":", task.index());
  if (task.incarnation() != 0) absl::StrAppend(&name, " (incarnation ", task.incarnation(), ")");
  return name;
}

proto::TaskRef WithoutIncarnation(proto::TaskRef task) {
  task.clear_incarnation();
  return task;
}

absl::Status MalformedMessage(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, what, proto::TRANSIENT);
}

bool IsMalformed(const absl::Status& status) {
  return (absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) &&
         ClassOf(status) == proto::TRANSIENT;
}

}  // namespace cohort
