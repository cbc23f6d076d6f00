#include "coordinator/homes/shard_stream.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/strand.h"
#include "common/checkpoint/row_stream.h"
#include "common/wire/error_detail.h"
#include "common/wire/message.h"
#include "common/wire/moved_bytes.h"
#include "common/wire/typed_call.h"
#include "coordinator/homes/home_calls.h"

namespace cohort {

namespace {

// How long a source home may be silent while a chunk travels from it to the target home. It is
// shorter than the time after which a connection is given up (5 s), because gangs are held during
// the copy.
constexpr absl::Duration kFetchSilence = absl::Seconds(4);

constexpr int64_t kNumberMax = std::numeric_limits<int64_t>::max();

// Returns a time as a request's field, in which 0 would mean that there is no time.
int64_t InMilliseconds(absl::Duration time) {
  return std::max<int64_t>(absl::ToInt64Milliseconds(time), 1);
}

// Returns whether `count` rows from row `begin` on can have `bytes` bytes in all. The counts come
// from the network, so the check rejects those that would overflow or leave a remainder.
bool AreRows(int64_t begin, int64_t count, uint64_t bytes) {
  if (begin < 0 || count < 0 || begin > kNumberMax - count) return false;
  if (bytes > static_cast<uint64_t>(kNumberMax)) return false;
  return count == 0 ? bytes == 0 : bytes % static_cast<uint64_t>(count) == 0;
}

// The saved slices of one tensor, by the number of the slice's first row.
using Slices = std::map<int64_t, const proto::SavedSlice*>;

// Finds the byte ranges of the shard that hold the wanted rows `rows`, and appends them to
// `pieces`. Returns the number of bytes found, which is less than wanted if the shard lacks rows.
uint64_t AddPieces(const proto::StagedRows& rows, const Slices& slices,
                   std::vector<ShardPiece>& pieces) {
  const int64_t end = rows.row_begin() + rows.row_count();
  const auto row_bytes = static_cast<int64_t>(rows.size()) / std::max<int64_t>(rows.row_count(), 1);
  int64_t next = rows.row_begin();
  for (const auto& [begin, slice] : slices) {
    const int64_t until = std::min(end, begin + slice->row_count());
    // Slices that do not contain row number `next` are skipped, and so are slices whose rows have
    // another size.
    if (begin > next || until <= next || slice->size() / slice->row_count() != row_bytes) continue;
    const ShardPiece piece{static_cast<uint64_t>(slice->offset() + (next - begin) * row_bytes),
                           static_cast<uint64_t>((until - next) * row_bytes)};
    next = until;
    // Adjacent byte ranges are joined into one, so that they need fewer chunks.
    if (!pieces.empty() && pieces.back().offset + pieces.back().size == piece.offset) {
      pieces.back().size += piece.size;
    } else {
      pieces.push_back(piece);
    }
  }
  return static_cast<uint64_t>((next - rows.row_begin()) * row_bytes);
}

// The base class of downloads, uploads and copies. Answers of its calls are handled on its strand.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(World world, absl::Duration call_timeout)
      : world_(world), call_timeout_(call_timeout), strand_(world.executor) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 protected:
  // Calls a home and runs `then` on the strand with the answer. The call may be silent for
  // `call_timeout_`.
  template <typename Response, typename Request, typename Then>
  void Call(const TaskLink& link, const char* method, Envelope<Request> request, Then then) {
    request.silence = call_timeout_;
    const size_t bytes = PayloadBytes(request.payload) + request.answer_bytes;
    const absl::Duration timeout = LongestTime(call_timeout_, bytes);
    StartRetried<Response>(
        link, absl::StrCat("/cohort.proto.PsService/", method), std::move(request), timeout,
        [self = shared_from_this(), then](absl::StatusOr<Envelope<Response>> answer) {
          self->strand_.Post([self, then, answer = std::move(answer)] { then(answer); });
        });
  }

  // Tells a home to drop the shard that it holds for a save. Does not wait for the answer: if the
  // call fails, the home drops the shard on its own after a while.
  void Release(const TaskLink& link, uint64_t epoch, uint64_t save) {
    Envelope<proto::ReleaseShardRequest> request;
    request.header.set_epoch(epoch);
    request.header.set_save(save);
    Call<proto::ReleaseShardResponse>(link, "ReleaseShard", std::move(request), [](const auto&) {});
  }

  const World world_;
  const absl::Duration call_timeout_;
  Strand strand_;
};

// Makes the StageRestore request for the restore `restore`. The caller has to add the list of the
// checkpoint's tensors.
proto::StageRestoreRequest StagingOf(const proto::RestoreShardRequest& restore) {
  proto::StageRestoreRequest request;
  request.set_epoch(restore.epoch());
  request.set_restore(restore.staged());
  request.set_prefix(restore.prefix());
  request.set_slots(restore.slots());
  request.set_new_slots(restore.new_slots());
  request.set_applied(restore.applied());
  return request;
}

// A download under way. The file is written on its strand.
class Download : public Stream {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)>;
  Download(World world, ShardDownload options, Done done)
      : Stream(world, options.call_timeout), options_(std::move(options)), done_(std::move(done)) {}

  void Begin() {
    strand_.Post([this, self = shared_from_this()] {
      absl::StatusOr<std::unique_ptr<DataShardCopy>> copy =
          DataShardCopy::Create(world_.files, options_.target, options_.layout);
      if (!copy.ok()) return End(copy.status());
      copy_ = *std::move(copy);
      ReadNext();
    });
  }

 private:
  void ReadNext() {
    // The next chunk is requested after the last one was written. So only one chunk is in memory at
    // a time.
    if (copy_->received() == copy_->size()) return End(copy_->Finish());
    Envelope<proto::ReadShardRequest> request;
    request.header.set_epoch(options_.save.epoch());
    request.header.set_save(options_.save.save());
    request.header.set_offset(copy_->received());
    request.header.set_max_bytes(options_.chunk_bytes);
    request.answer_bytes =
        std::min<size_t>(options_.chunk_bytes, copy_->size() - copy_->received());
    Call<proto::ReadShardResponse>(options_.link, "ReadShard", std::move(request),
                                   [this](const auto& answer) {
                                     if (!answer.ok()) return End(answer.status());
                                     OnChunk(*answer);
                                   });
  }

  void OnChunk(const Envelope<proto::ReadShardResponse>& chunk) {
    // A damaged chunk is not written, so ReadNext() requests the same bytes again.
    if (PayloadCrc32c(chunk.payload) != chunk.header.crc32c()) {
      if (++damaged_ == kCallAttemptsMax) return End(Damaged());
      return ReadNext();
    }
    damaged_ = 0;
    if (absl::Status status = Append(chunk.payload); !status.ok()) return End(status);
    ReadNext();
  }

  absl::Status Append(const Payload& chunk) {
    if (PayloadBytes(chunk) == 0) return absl::InternalError("ReadShard answered no bytes");
    for (const ByteSlice& slice : chunk) {
      RETURN_IF_ERROR(
          copy_->Append(absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size)));
    }
    return absl::OkStatus();
  }

  absl::Status Damaged() const {
    return Attributed(
        absl::DataLossError(absl::StrCat("the bytes from ", copy_->received(), " on of shard ",
                                         options_.target.shard, " of ", options_.target.prefix,
                                         " came damaged ", damaged_, " times in a row")),
        proto::TRANSIENT, options_.link.task);
  }

  void End(absl::StatusOr<std::vector<proto::SavedSlice>> result) {
    Release(options_.link, options_.save.epoch(), options_.save.save());
    done_(std::move(result));
  }

  const ShardDownload options_;
  // The members below are used only on `strand_`, so by one thread at a time.
  Done done_;
  std::unique_ptr<DataShardCopy> copy_;
  int damaged_ = 0;  // number of damaged chunks in a row
};

// An upload under way. The files are read on its strand.
class Upload : public Stream {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  Upload(World world, ShardUpload options, Done done)
      : Stream(world, options.call_timeout), options_(std::move(options)), done_(std::move(done)) {}

  void Begin() {
    Call<proto::StageRestoreResponse>(options_.link, "StageRestore",
                                      Envelope<proto::StageRestoreRequest>{StageRequest(), {}},
                                      [this](const auto& answer) {
                                        if (!answer.ok()) return done_(answer.status());
                                        Want(answer->header);
                                      });
  }

 private:
  proto::StageRestoreRequest StageRequest() const {
    proto::StageRestoreRequest request = StagingOf(options_.request);
    for (const auto& [name, tensor] : options_.reader->tensors()) {
      proto::StoredTensorInfo& info = *request.add_tensors();
      info.set_name(name);
      info.set_dtype(static_cast<int32_t>(tensor.dtype));
      for (const int64_t dim : tensor.shape.dims()) info.add_dims(dim);
    }
    return request;
  }

  // Handles the answer to StageRestore, which lists the rows that the home wants, and begins to
  // send these rows.
  void Want(const proto::StageRestoreResponse& wanted) {
    rows_.assign(wanted.rows().begin(), wanted.rows().end());
    for (const proto::StagedRows& row : rows_) size_ += row.size();
    SendNext();
  }

  // Opens the stream of the next rows that the home wants. Errors: those of BundleReader; INTERNAL
  // if the rows have another size in the checkpoint than the home expects.
  absl::Status OpenRow() {
    const proto::StagedRows& row = rows_[row_];
    ASSIGN_OR_RETURN(stream_,
                     options_.reader->StreamRows(row.tensor(), {row.row_begin(), row.row_count()}));
    // The coordinator and the home compute this size independently. If the sizes differ, the two
    // disagree about the layout of the tensor.
    if (stream_->left() == row.size()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("'", row.tensor(), "' has ", stream_->left(),
                                            " bytes where the ps asks for ", row.size()));
  }

  // Returns the next bytes of the rows that the home wants: a full chunk, or less at the end. After
  // the last row, returns an empty payload.
  absl::StatusOr<Payload> NextChunk() {
    const size_t size = std::min<uint64_t>(options_.chunk_bytes, size_ - offset_);
    if (size == 0) return Payload();
    // A chunk may contain the end of one entry of rows_ and the begin of the next.
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

  void SendNext() {
    absl::StatusOr<Payload> chunk = NextChunk();
    if (!chunk.ok()) return done_(chunk.status());
    if (chunk->empty()) return Restore();
    Envelope<proto::WriteStagedRequest> request;
    request.header.set_epoch(options_.request.epoch());
    request.header.set_restore(options_.request.staged());
    request.header.set_offset(offset_);
    request.header.set_crc32c(PayloadCrc32c(*chunk));
    // The offset advances before the answer comes: if the call fails, StartRetried sends this same
    // request again.
    offset_ += PayloadBytes(*chunk);
    request.payload = *std::move(chunk);
    Call<proto::WriteStagedResponse>(options_.link, "WriteStaged", std::move(request),
                                     [this](const auto& answer) {
                                       if (!answer.ok()) return done_(answer.status());
                                       SendNext();
                                     });
  }

  void Restore() {
    Call<proto::RestoreShardResponse>(options_.link, "RestoreShard",
                                      Envelope<proto::RestoreShardRequest>{options_.request, {}},
                                      [this](const auto& answer) { done_(answer.status()); });
  }

  const ShardUpload options_;
  // The members below are used only on `strand_`, so by one thread at a time.
  Done done_;
  std::vector<proto::StagedRows> rows_;
  size_t row_ = 0;  // index of the entry of rows_ that is being sent
  // The unread rest of the entry of rows_ that is being sent. Null before the entry is opened.
  std::unique_ptr<RowStream> stream_;
  uint64_t offset_ = 0;  // number of bytes sent so far
  uint64_t size_ = 0;    // number of bytes of all entries of rows_
};

// A copy under way, from one home to another.
class Copy : public Stream {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  Copy(World world, ShardCopy options, Done done)
      : Stream(world, options.call_timeout), options_(std::move(options)), done_(std::move(done)) {}

  void Begin() {
    Call<proto::StageRestoreResponse>(
        options_.target, "StageRestore", Envelope<proto::StageRestoreRequest>{StageRequest(), {}},
        [this](const auto& answer) {
          if (!answer.ok()) return End(answer.status());
          auto pieces = PiecesOf({answer->header.rows().begin(), answer->header.rows().end()},
                                 options_.layout);
          if (!pieces.ok()) return End(pieces.status());
          pieces_ = *std::move(pieces);
          FetchNext();
        });
  }

 private:
  proto::StageRestoreRequest StageRequest() const {
    proto::StageRestoreRequest request = StagingOf(options_.request);
    std::map<std::string, const proto::SavedSlice*> tensors;
    for (const proto::SavedSlice& slice : options_.layout) tensors[slice.tensor()] = &slice;
    for (const auto& [name, slice] : tensors) {
      proto::StoredTensorInfo& info = *request.add_tensors();
      info.set_name(name);
      info.set_dtype(slice->dtype());
      *info.mutable_dims() = slice->full_dims();
    }
    return request;
  }

  void FetchNext() {
    if (piece_ == pieces_.size()) return Restore();
    const ShardPiece& piece = pieces_[piece_];
    Envelope<proto::FetchStagedRequest> request;
    proto::FetchStagedRequest& header = request.header;
    header.set_epoch(options_.request.epoch());
    header.set_restore(options_.request.staged());
    header.set_offset(offset_);
    *header.mutable_from()->mutable_task() = options_.source.task;
    header.mutable_from()->set_address(options_.source.address);
    header.set_save(options_.save);
    header.set_shard_offset(piece.offset + fetched_);
    header.set_max_bytes(std::min<uint64_t>(piece.size - fetched_, options_.chunk_bytes));
    // The target's times for the source are shorter than this call's own, so that the target can
    // report a silent or slow source.
    const absl::Duration silence = std::min(kFetchSilence, call_timeout_ / 2);
    header.set_silence_ms(InMilliseconds(silence));
    header.set_timeout_ms(InMilliseconds(call_timeout_ - silence));
    Call<proto::FetchStagedResponse>(options_.target, "FetchStaged", std::move(request),
                                     [this](const auto& answer) {
                                       if (!answer.ok()) return End(answer.status());
                                       Fetched(answer->header.bytes());
                                     });
  }

  void Fetched(uint64_t bytes) {
    // If FetchStaged answered 0 bytes, the copy would never end. If it answered too many, the copy
    // would leave the range.
    if (bytes == 0 || bytes > pieces_[piece_].size - fetched_) {
      return End(absl::InternalError(absl::StrCat("FetchStaged answered ", bytes, " bytes")));
    }
    offset_ += bytes;
    fetched_ += bytes;
    if (fetched_ == pieces_[piece_].size) {
      ++piece_;
      fetched_ = 0;
    }
    FetchNext();
  }

  void Restore() {
    Call<proto::RestoreShardResponse>(options_.target, "RestoreShard",
                                      Envelope<proto::RestoreShardRequest>{options_.request, {}},
                                      [this](const auto& answer) { End(answer.status()); });
  }

  void End(absl::Status status) {
    Release(options_.source, options_.request.epoch(), options_.save);
    done_(std::move(status));
  }

  const ShardCopy options_;
  // The members below are used only on `strand_`, so by one thread at a time.
  Done done_;
  std::vector<ShardPiece> pieces_;
  size_t piece_ = 0;      // index of the range in pieces_ that is being fetched
  uint64_t fetched_ = 0;  // bytes of this range that are fetched
  uint64_t offset_ = 0;   // bytes of all ranges that are fetched
};

}  // namespace

absl::StatusOr<std::vector<ShardPiece>> PiecesOf(const std::vector<proto::StagedRows>& rows,
                                                 const std::vector<proto::SavedSlice>& layout) {
  std::map<std::string, Slices> tensors;
  for (const proto::SavedSlice& slice : layout) {
    // The layout comes from another process, so its numbers are checked before they are used.
    const bool possible = AreRows(slice.row_begin(), slice.row_count(), slice.size()) &&
                          slice.offset() >= 0 && slice.offset() <= kNumberMax - slice.size();
    if (!possible) {
      return absl::InternalError(
          absl::StrCat("the source says of '", slice.tensor(), "': ", slice.ShortDebugString()));
    }
    if (slice.size() > 0) tensors[slice.tensor()][slice.row_begin()] = &slice;
  }
  std::vector<ShardPiece> pieces;
  for (const proto::StagedRows& wanted : rows) {
    if (!AreRows(wanted.row_begin(), wanted.row_count(), wanted.size())) {
      return absl::InternalError(
          absl::StrCat("the target wants of '", wanted.tensor(), "': ", wanted.ShortDebugString()));
    }
    const uint64_t found = AddPieces(wanted, tensors[wanted.tensor()], pieces);
    // If the source lacks rows that the target wants, the copy fails. The caller may try another
    // source.
    if (found == wanted.size()) continue;
    return absl::InternalError(absl::StrCat("of '", wanted.tensor(), "' ", wanted.size(),
                                            " bytes are wanted from row ", wanted.row_begin(),
                                            " on, and the source holds ", found));
  }
  return pieces;
}

void StartShardDownload(
    World world, ShardDownload download,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)> done) {
  std::make_shared<Download>(world, std::move(download), std::move(done))->Begin();
}

void StartShardUpload(World world, ShardUpload upload,
                      absl::AnyInvocable<void(absl::Status)> done) {
  std::make_shared<Upload>(world, std::move(upload), std::move(done))->Begin();
}

void StartShardCopy(World world, ShardCopy copy, absl::AnyInvocable<void(absl::Status)> done) {
  std::make_shared<Copy>(world, std::move(copy), std::move(done))->Begin();
}

}  // namespace cohort
