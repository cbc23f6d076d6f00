#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/bench/grpc_neighbours.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

namespace {

// Adds floats that come in pieces, which may cut one. Thread-compatible.
class PieceAdder {
 public:
  explicit PieceAdder(float* sums) : sums_(sums) {}

  void Add(const grpc::Slice& piece) {
    const uint8_t* from = piece.begin();
    size_t bytes = piece.size();
    for (; cut_bytes_ > 0 && bytes > 0; --bytes) AddToCut(*from++);
    const size_t whole = bytes / sizeof(float);
    for (size_t i = 0; i < whole; ++i) {
      float value = 0;
      std::memcpy(&value, from + i * sizeof(float), sizeof(float));
      sums_[i] += value;
    }
    sums_ += whole;
    from += whole * sizeof(float);
    for (bytes -= whole * sizeof(float); bytes > 0; --bytes) AddToCut(*from++);
  }

 private:
  void AddToCut(uint8_t byte) {
    cut_[cut_bytes_++] = byte;
    if (cut_bytes_ < sizeof(float)) return;
    float value = 0;
    std::memcpy(&value, cut_, sizeof(float));
    *sums_++ += value;
    cut_bytes_ = 0;
  }

  float* sums_;
  uint8_t cut_[sizeof(float)] = {};
  size_t cut_bytes_ = 0;
};

struct Segment {
  size_t first = 0;
  size_t count = 0;
};

// A ring all-reduce: each chunk of the values goes once round to be summed and once round to be
// kept, in segments. Nothing is checked, and no message says what it is. Thread-compatible.
class GrpcRing final : public RankWork {
 public:
  static absl::StatusOr<std::unique_ptr<RankWork>> Make(const RankPlace& place,
                                                        size_t segment_bytes) {
    std::unique_ptr<GrpcRing> ring(new GrpcRing(place, segment_bytes));
    ASSIGN_OR_RETURN(ring->neighbours_, GrpcNeighbours::Make(place));
    ring->neighbours_->Start(
        {[self = ring.get()](const grpc::ByteBuffer& message) { self->Received(message); }, nullptr,
         [self = ring.get()] { self->Ended(); },
         [self = ring.get()](const std::string& why) { self->Broke(why); }});
    return ring;
  }

  float* Prepare(size_t count) override {
    MutexLock lock(mutex_);
    values_ = std::vector<float>(count);
    return values_.data();
  }

  bool AllReduce(int times) override {
    MutexLock lock(mutex_);
    times_left_ = times;
    BeginLocked();
    while (!broken_ && times_left_ > 0) changed_.Wait(mutex_);
    return !broken_;
  }

  bool Barrier() override {
    MutexLock lock(mutex_);
    for (size_t step = 0; step < ranks_; ++step) {
      static const char byte = 0;
      const grpc::Slice slice(&byte, 1, grpc::Slice::STATIC_SLICE);
      neighbours_->Send(grpc::ByteBuffer(&slice, 1));
      while (!broken_ && barriers_ == 0) changed_.Wait(mutex_);
      --barriers_;
    }
    return !broken_;
  }

 private:
  GrpcRing(const RankPlace& place, size_t segment_bytes)
      : ranks_(static_cast<size_t>(place.ranks)),
        rank_(static_cast<size_t>(place.rank)),
        segment_count_(segment_bytes / sizeof(float)) {}

  Segment SegmentOf(size_t chunk, size_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t end = values_.size() * (chunk + 1) / ranks_;
    const size_t first = std::min(values_.size() * chunk / ranks_ + index * segment_count_, end);
    return {first, std::min(segment_count_, end - first)};
  }

  void BeginLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t longest = (values_.size() + ranks_ - 1) / ranks_;
    segments_ = (longest + segment_count_ - 1) / segment_count_;
    taken_ = 0;
    open_ = true;
    uses_ = 1;
    for (size_t i = 0; i < segments_; ++i) SendLocked(SegmentOf(rank_, i));
    while (open_ && !early_.empty()) {
      const grpc::ByteBuffer message = early_.front();
      early_.pop_front();
      TakeLocked(message);
    }
  }

  void Received(const grpc::ByteBuffer& message) {
    MutexLock lock(mutex_);
    if (message.Length() == 1) {
      ++barriers_;
      changed_.NotifyAll();
    } else if (open_) {
      TakeLocked(message);
    } else {
      early_.push_back(message);
    }
  }

  // They come in order: all segments of a step before those of the next one.
  void TakeLocked(const grpc::ByteBuffer& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t step = taken_ / segments_;
    const Segment segment = SegmentOf((rank_ + 2 * ranks_ - 1 - step) % ranks_, taken_ % segments_);
    std::vector<grpc::Slice> pieces;
    if (!message.Dump(&pieces).ok()) pieces.clear();
    if (step + 1 < ranks_) {
      PieceAdder adder(values_.data() + segment.first);
      for (const grpc::Slice& piece : pieces) adder.Add(piece);
      SendLocked(segment);
    } else {
      if (step + 2 < 2 * ranks_ - 1) neighbours_->Send(message);
      auto* to = reinterpret_cast<char*>(values_.data() + segment.first);
      for (const grpc::Slice& piece : pieces) {
        std::memcpy(to, piece.begin(), piece.size());
        to += piece.size();
      }
    }
    if (++taken_ < 2 * (ranks_ - 1) * segments_) return;
    open_ = false;
    ReleaseUse();
  }

  // gRPC reads the values themselves.
  void SendLocked(const Segment& segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++uses_;
    const auto release = [](void* ring) { static_cast<GrpcRing*>(ring)->ReleaseUse(); };
    const grpc::Slice slice(values_.data() + segment.first, segment.count * sizeof(float), release,
                            this);
    neighbours_->Send(grpc::ByteBuffer(&slice, 1));
  }

  // By gRPC, wherever that lets go of what it has sent: with the lock or without.
  void ReleaseUse() {
    if (--uses_ == 0) neighbours_->RunLater();
  }

  void Ended() {
    MutexLock lock(mutex_);
    if (--times_left_ > 0) return BeginLocked();
    changed_.NotifyAll();
  }

  void Broke(const std::string& why) {
    MutexLock lock(mutex_);
    if (times_left_ > 0) std::fprintf(stderr, "a bare ring broke: %s\n", why.c_str());
    broken_ = true;
    changed_.NotifyAll();
  }

  const size_t ranks_;
  const size_t rank_;
  const size_t segment_count_;
  std::atomic<int> uses_{0};  // of the values: by what is sent, and by the all-reduce
  Mutex mutex_;
  CondVar changed_;
  std::vector<float> values_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> early_ ABSL_GUARDED_BY(mutex_);  // of the next all-reduce
  int times_left_ ABSL_GUARDED_BY(mutex_) = 0;
  int barriers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t segments_ ABSL_GUARDED_BY(mutex_) = 0;  // of a chunk
  std::unique_ptr<GrpcNeighbours> neighbours_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankWork>> MakeGrpcRing(const RankPlace& place,
                                                       size_t segment_bytes) {
  return GrpcRing::Make(place, segment_bytes);
}

}  // namespace cohort::bench
