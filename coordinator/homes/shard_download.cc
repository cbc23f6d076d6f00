#include "coordinator/homes/shard_download.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/payload_crc.h"
#include "coordinator/homes/retried_call.h"

namespace cohort {

void ShardDownload::Start(World world, Options options, Done done) {
  const std::shared_ptr<ShardDownload> download(
      new ShardDownload(world, std::move(options), std::move(done)));
  download->strand_.Post([download] {
    absl::StatusOr<std::unique_ptr<DataShardCopy>> copy = DataShardCopy::Create(
        download->world_.files, download->options_.target, download->options_.layout);
    if (!copy.ok()) return download->End(copy.status());
    download->copy_ = *std::move(copy);
    download->ReadNext();
  });
}

ShardDownload::ShardDownload(World world, Options options, Done done)
    : world_(world),
      options_(std::move(options)),
      strand_(world.executor),
      done_(std::move(done)) {}

template <typename Response, typename Request, typename Then>
void ShardDownload::Call(const char* method, Request header, Then then) {
  StartRetried<Response>(
      options_.link, absl::StrCat("/cohort.proto.PsService/", method),
      Envelope<Request>{std::move(header), {}}, options_.call_timeout,
      [self = shared_from_this(), then](absl::StatusOr<Envelope<Response>> answer) {
        self->strand_.Post([self, then, answer = std::move(answer)] { then(answer); });
      });
}

void ShardDownload::ReadNext() {
  // One chunk is asked for after another, so only one is in memory.
  if (copy_->received() == copy_->size()) return End(copy_->Finish());
  proto::ReadShardRequest request;
  request.set_epoch(options_.save.epoch());
  request.set_save(options_.save.save());
  request.set_offset(copy_->received());
  request.set_max_bytes(options_.chunk_bytes);
  Call<proto::ReadShardResponse>("ReadShard", std::move(request), [this](const auto& answer) {
    if (!answer.ok()) return End(answer.status());
    OnChunk(*answer);
  });
}

void ShardDownload::OnChunk(const Envelope<proto::ReadShardResponse>& chunk) {
  // A damaged chunk was not appended, so the same offset is read again.
  if (PayloadCrc32c(chunk.payload) != chunk.header.crc32c()) {
    if (++damaged_ == kCallAttemptsMax) return End(Damaged());
    return ReadNext();
  }
  damaged_ = 0;
  if (absl::Status status = Append(chunk.payload); !status.ok()) return End(status);
  ReadNext();
}

absl::Status ShardDownload::Append(const Payload& chunk) {
  if (PayloadBytes(chunk) == 0) return absl::InternalError("ReadShard answered no bytes");
  for (const ByteSlice& slice : chunk) {
    RETURN_IF_ERROR(
        copy_->Append(absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size)));
  }
  return absl::OkStatus();
}

absl::Status ShardDownload::Damaged() const {
  return Attributed(
      absl::DataLossError(absl::StrCat("the bytes from ", copy_->received(), " on of shard ",
                                       options_.target.shard, " of ", options_.target.prefix,
                                       " came damaged ", damaged_, " times in a row")),
      proto::TRANSIENT, options_.link.task);
}

void ShardDownload::End(absl::StatusOr<std::vector<proto::SavedSlice>> result) {
  proto::ReleaseShardRequest request;
  request.set_epoch(options_.save.epoch());
  request.set_save(options_.save.save());
  // The release is not waited for: the ps drops an unreleased shard that nobody reads.
  Call<proto::ReleaseShardResponse>("ReleaseShard", std::move(request), [](const auto&) {});
  done_(std::move(result));
}

}  // namespace cohort
