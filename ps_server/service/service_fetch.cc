// The call FetchStaged, which copies rows for a staged restore from another home that has the same
// variables.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame_limits.h"
#include "ps_server/service/ps_service.h"

namespace cohort {

namespace {

// Returns the error of a failed fetch with its error class. A broken connection is TRANSIENT,
// because a repeated call may succeed. A home that does not answer in time counts as lost
// (PS_LOST), because gangs cannot run until the fetch ends.
absl::Status FetchError(const absl::Status& status, const proto::TaskRef& from) {
  if (absl::IsDeadlineExceeded(status)) return Attributed(status, proto::PS_LOST, from);
  return Attributed(status, absl::IsUnavailable(status) ? proto::TRANSIENT : proto::APPLICATION,
                    from);
}

}  // namespace

void PsService::FetchStaged(const proto::FetchStagedRequest& request,
                            TypedReply<proto::FetchStagedResponse> reply) {
  strand_.Post([self = shared_from_this(), request, reply = std::move(reply)]() mutable {
    self->StartFetch(request, std::move(reply));
  });
}

void PsService::StartFetch(const proto::FetchStagedRequest& request,
                           TypedReply<proto::FetchStagedResponse> reply) {
  absl::Status status = EnterEpoch(request.epoch());
  if (status.ok()) status = staging_.Find(request.restore(), world_.clock.Now()).status();
  if (status.ok() && (request.from().address().empty() || request.timeout_ms() <= 0)) {
    status = absl::InvalidArgumentError("FetchStagedRequest needs an address and a timeout");
  }
  if (!status.ok()) return reply(std::move(status));
  // `from` includes the incarnation of the other home, because a restarted process needs a new
  // connection even if its address is the same.
  const std::string from =
      absl::StrCat(request.from().address(), " ", request.from().task().incarnation());
  if (fetched_from_ != from) {
    fetched_from_ = from;
    fetch_channel_ = world_.transport.Connect(request.from().address(), Lane::kData);
  }
  // strand_ does not wait for the answer to ReadShard: the answer's callback posts EndFetch to
  // strand_.
  Envelope<proto::ReadShardRequest> read;
  read.header.set_epoch(request.epoch());
  read.header.set_save(request.save());
  read.header.set_offset(request.shard_offset());
  read.header.set_max_bytes(request.max_bytes());
  read.answer_bytes = std::min<size_t>(request.max_bytes(), kShardChunkBytesMax);
  if (request.silence_ms() > 0) read.silence = absl::Milliseconds(request.silence_ms());
  StartCall<proto::ReadShardResponse>(
      *fetch_channel_, "/cohort.proto.PsService/ReadShard", std::move(read),
      absl::Milliseconds(request.timeout_ms()),
      [self = shared_from_this(), channel = fetch_channel_, request,
       reply = std::move(reply)](Answer<proto::ReadShardResponse> fetched) mutable {
        self->strand_.Post(
            [self, request, reply = std::move(reply), fetched = std::move(fetched)]() mutable {
              reply(self->EndFetch(request, fetched));
            });
      });
}

absl::StatusOr<Envelope<proto::FetchStagedResponse>> PsService::EndFetch(
    const proto::FetchStagedRequest& request, const Answer<proto::ReadShardResponse>& fetched) {
  if (!fetched.ok()) return FetchError(fetched.status(), request.from().task());
  const size_t bytes = PayloadBytes(fetched->payload);
  // An empty chunk is an error, because the coordinator would otherwise ask for the same bytes
  // again and again.
  if (bytes == 0 || bytes > request.max_bytes()) {
    return Attributed(absl::InternalError(absl::StrCat("ReadShard answered ", bytes,
                                                       " bytes of at most ", request.max_bytes())),
                      proto::APPLICATION, request.from().task());
  }
  // A new epoch may have begun, or another restore may have been staged, while the chunk was
  // fetched, so both are checked again.
  RETURN_IF_ERROR(EnterEpoch(request.epoch()));
  ASSIGN_OR_RETURN(StagedRestore * staged, staging_.Find(request.restore(), world_.clock.Now()));
  RETURN_IF_ERROR(staged->Write(request.offset(), fetched->header.crc32c(), fetched->payload));
  Envelope<proto::FetchStagedResponse> response;
  response.header.set_bytes(bytes);
  return response;
}

}  // namespace cohort
