#include "coordinator/homes/shard_upload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/payload_crc.h"
#include "coordinator/homes/retried_call.h"
#include "coordinator/homes/stage_request.h"

namespace cohort {

void ShardUpload::Start(World world, Options options, Done done) {
  const std::shared_ptr<ShardUpload> upload(
      new ShardUpload(world, std::move(options), std::move(done)));
  upload->Call<proto::StageRestoreResponse>(
      "StageRestore", Envelope<proto::StageRestoreRequest>{upload->StageRequest(), {}},
      [self = upload.get()](auto answer) {
        if (!answer.ok()) return self->done_(answer.status());
        self->rows_.assign(answer->header.rows().begin(), answer->header.rows().end());
        // The ps answers which rows of which tensors it needs.
        for (const proto::StagedRows& row : self->rows_) self->size_ += row.size();
        self->SendNext();
      });
}

ShardUpload::ShardUpload(World world, Options options, Done done)
    : options_(std::move(options)), strand_(world.executor), done_(std::move(done)) {}

template <typename Response, typename Request, typename Then>
void ShardUpload::Call(const char* method, Envelope<Request> request, Then then) {
  StartRetried<Response>(
      options_.link, absl::StrCat("/cohort.proto.PsService/", method), std::move(request),
      options_.call_timeout,
      [self = shared_from_this(), then](absl::StatusOr<Envelope<Response>> answer) {
        self->strand_.Post([self, then, answer = std::move(answer)] { then(answer); });
      });
}

proto::StageRestoreRequest ShardUpload::StageRequest() const {
  proto::StageRestoreRequest request = StagingOf(options_.request);
  for (const auto& [name, tensor] : options_.reader->tensors()) {
    proto::StoredTensorInfo& info = *request.add_tensors();
    info.set_name(name);
    info.set_dtype(static_cast<int32_t>(tensor.dtype));
    for (const int64_t dim : tensor.shape.dims()) info.add_dims(dim);
  }
  return request;
}

absl::Status ShardUpload::OpenRow() {
  const proto::StagedRows& row = rows_[row_];
  ASSIGN_OR_RETURN(stream_,
                   options_.reader->StreamRows(row.tensor(), {row.row_begin(), row.row_count()}));
  // Both sides compute the size, so a difference shows that they read the layout differently.
  if (stream_->left() == row.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("'", row.tensor(), "' has ", stream_->left(),
                                          " bytes where the ps asks for ", row.size()));
}

absl::StatusOr<Payload> ShardUpload::NextChunk() {
  const size_t size = std::min<uint64_t>(options_.chunk_bytes, size_ - offset_);
  if (size == 0) return Payload();
  // A chunk may hold the end of one entry and the beginning of the next.
  const std::shared_ptr<Buffer> buffer = Buffer::Allocate(size);
  absl::Span<char> room(reinterpret_cast<char*>(buffer->data()), size);
  while (!room.empty()) {
    if (stream_ == nullptr) RETURN_IF_ERROR(OpenRow());
    const size_t count = std::min<uint64_t>(room.size(), stream_->left());
    RETURN_IF_ERROR(stream_->Read(room.first(count)));
    room.remove_prefix(count);
    if (stream_->left() > 0) continue;
    stream_ = nullptr;
    ++row_;
  }
  return Payload{{buffer, buffer->data(), size}};
}

void ShardUpload::SendNext() {
  absl::StatusOr<Payload> chunk = NextChunk();
  if (!chunk.ok()) return done_(chunk.status());
  if (chunk->empty()) return Restore();
  Envelope<proto::WriteStagedRequest> request;
  request.header.set_epoch(options_.request.epoch());
  request.header.set_restore(options_.request.staged());
  request.header.set_offset(offset_);
  request.header.set_crc32c(PayloadCrc32c(*chunk));
  // The offset moves on before the answer: StartRetried repeats this very request if it fails.
  offset_ += PayloadBytes(*chunk);
  request.payload = *std::move(chunk);
  Call<proto::WriteStagedResponse>("WriteStaged", std::move(request), [this](auto answer) {
    if (!answer.ok()) return done_(answer.status());
    SendNext();
  });
}

void ShardUpload::Restore() {
  Call<proto::RestoreShardResponse>("RestoreShard",
                                    Envelope<proto::RestoreShardRequest>{options_.request, {}},
                                    [this](auto answer) { done_(answer.status()); });
}

}  // namespace cohort
