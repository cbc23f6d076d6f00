#include "coordinator/homes/shard_copy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/homes/retried_call.h"
#include "coordinator/homes/stage_request.h"

namespace cohort {

namespace {

// The time in which one chunk must get from the source home to the target home. Gangs are held
// meanwhile, so two homes that do not reach each other are given up earlier than a connection would
// be (5 s).
constexpr absl::Duration kFetchTimeout = absl::Seconds(4);

constexpr int64_t kNumberMax = std::numeric_limits<int64_t>::max();

// Returns whether `count` rows from row `begin` on may have `bytes` bytes in all. False for counts
// from the network that would overflow or leave a remainder.
bool AreRows(int64_t begin, int64_t count, uint64_t bytes) {
  if (begin < 0 || count < 0 || begin > kNumberMax - count) return false;
  if (bytes > static_cast<uint64_t>(kNumberMax)) return false;
  return count == 0 ? bytes == 0 : bytes % static_cast<uint64_t>(count) == 0;
}

// The saved slices of one tensor, by their first rows.
using Slices = std::map<int64_t, const proto::SavedSlice*>;

// Appends the byte ranges that hold the rows. Returns how many of their bytes were found.
uint64_t AddPieces(const proto::StagedRows& rows, const Slices& slices,
                   std::vector<ShardPiece>& pieces) {
  const int64_t end = rows.row_begin() + rows.row_count();
  const auto row_bytes = static_cast<int64_t>(rows.size()) / std::max<int64_t>(rows.row_count(), 1);
  int64_t next = rows.row_begin();
  for (const auto& [begin, slice] : slices) {
    const int64_t until = std::min(end, begin + slice->row_count());
    // Skips slices before or after a gap, and slices whose rows have another size.
    if (begin > next || until <= next || slice->size() / slice->row_count() != row_bytes) continue;
    const ShardPiece piece{static_cast<uint64_t>(slice->offset() + (next - begin) * row_bytes),
                           static_cast<uint64_t>((until - next) * row_bytes)};
    next = until;
    // Byte ranges that follow each other are joined into one, so that fewer chunks are fetched.
    if (!pieces.empty() && pieces.back().offset + pieces.back().size == piece.offset) {
      pieces.back().size += piece.size;
    } else {
      pieces.push_back(piece);
    }
  }
  return static_cast<uint64_t>((next - rows.row_begin()) * row_bytes);
}

}  // namespace

absl::StatusOr<std::vector<ShardPiece>> PiecesOf(const std::vector<proto::StagedRows>& rows,
                                                 const std::vector<proto::SavedSlice>& layout) {
  std::map<std::string, Slices> tensors;
  for (const proto::SavedSlice& slice : layout) {
    // The layout comes from another process, so it is checked before it is used in arithmetic.
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
    // A source that lacks rows cannot be a source; the copy is tried from another home.
    if (found == wanted.size()) continue;
    return absl::InternalError(absl::StrCat("of '", wanted.tensor(), "' ", wanted.size(),
                                            " bytes are wanted from row ", wanted.row_begin(),
                                            " on, and the source holds ", found));
  }
  return pieces;
}

void ShardCopy::Start(World world, Options options, Done done) {
  const std::shared_ptr<ShardCopy> copy(new ShardCopy(world, std::move(options), std::move(done)));
  copy->Call<proto::StageRestoreResponse>(
      copy->options_.target, "StageRestore", copy->StageRequest(),
      [self = copy.get()](const auto& answer) {
        if (!answer.ok()) return self->End(answer.status());
        auto pieces = PiecesOf({answer->header.rows().begin(), answer->header.rows().end()},
                               self->options_.layout);
        if (!pieces.ok()) return self->End(pieces.status());
        self->pieces_ = *std::move(pieces);
        self->FetchNext();
      });
}

ShardCopy::ShardCopy(World world, Options options, Done done)
    : options_(std::move(options)), strand_(world.executor), done_(std::move(done)) {}

template <typename Response, typename Request, typename Then>
void ShardCopy::Call(const TaskLink& link, const char* method, Request request, Then then) {
  StartRetried<Response>(
      link, absl::StrCat("/cohort.proto.PsService/", method),
      Envelope<Request>{std::move(request), {}}, options_.call_timeout,
      [self = shared_from_this(), then](absl::StatusOr<Envelope<Response>> answer) {
        self->strand_.Post([self, then, answer = std::move(answer)] { then(answer); });
      });
}

proto::StageRestoreRequest ShardCopy::StageRequest() const {
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

void ShardCopy::FetchNext() {
  if (piece_ == pieces_.size()) return Restore();
  const ShardPiece& piece = pieces_[piece_];
  proto::FetchStagedRequest request;
  request.set_epoch(options_.request.epoch());
  request.set_restore(options_.request.staged());
  request.set_offset(offset_);
  *request.mutable_from()->mutable_task() = options_.source.task;
  request.mutable_from()->set_address(options_.source.address);
  request.set_save(options_.save);
  request.set_shard_offset(piece.offset + fetched_);
  request.set_max_bytes(std::min<uint64_t>(piece.size - fetched_, options_.chunk_bytes));
  // Less than the call's own time-out, so that the target can still answer which home was silent.
  const absl::Duration timeout = std::min(kFetchTimeout, options_.call_timeout / 2);
  request.set_timeout_ms(std::max<int64_t>(absl::ToInt64Milliseconds(timeout), 1));
  Call<proto::FetchStagedResponse>(
      options_.target, "FetchStaged", std::move(request), [this](const auto& answer) {
        if (!answer.ok()) return End(answer.status());
        const uint64_t bytes = answer->header.bytes();
        // An answer of 0 bytes would repeat for ever, and too many bytes would run into the next
        // range.
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
      });
}

void ShardCopy::Restore() {
  Call<proto::RestoreShardResponse>(options_.target, "RestoreShard", options_.request,
                                    [this](const auto& answer) { End(answer.status()); });
}

void ShardCopy::End(absl::Status status) {
  proto::ReleaseShardRequest request;
  request.set_epoch(options_.request.epoch());
  request.set_save(options_.save);
  // The release is not waited for: the source drops an unreleased shard that nobody reads.
  Call<proto::ReleaseShardResponse>(options_.source, "ReleaseShard", std::move(request),
                                    [](const auto&) {});
  done_(std::move(status));
}

}  // namespace cohort
