#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/bench/grpc_neighbours.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

namespace {

// Bytes that were sent and not yet answered stay below this.
constexpr size_t kWindowBytes = size_t{8} << 20;

// Counts what it receives and answers each message. Thread-compatible.
class GrpcStream final : public RankWork {
 public:
  static absl::StatusOr<std::unique_ptr<RankWork>> Make(const RankPlace& place,
                                                        size_t message_bytes) {
    std::unique_ptr<GrpcStream> stream(new GrpcStream(place, message_bytes));
    ASSIGN_OR_RETURN(stream->neighbours_, GrpcNeighbours::Make(place));
    stream->neighbours_->Start(
        {[self = stream.get()](const grpc::ByteBuffer& message) { self->Received(message); },
         [self = stream.get()] { self->Answered(); }, nullptr,
         [self = stream.get()](const std::string& why) { self->Broke(why); }});
    return stream;
  }

  bool sums() const override { return false; }
  float* Prepare(size_t count) override {
    MutexLock lock(mutex_);
    while (!broken_ && unanswered_ > 0) changed_.Wait(mutex_);  // gRPC reads what is not answered
    values_ = std::vector<float>(2 * count);
    next_ = 0;
    bytes_ = 2 * (ranks_ - 1) * (count * sizeof(float) / ranks_);
    return values_.data();
  }
  bool AllReduce(int times) override {
    for (int i = 0; i < times; ++i) {
      if (!Exchange(bytes_)) return false;
    }
    return true;
  }
  bool Barrier() override {
    for (size_t step = 0; step < ranks_; ++step) {
      if (!Exchange(1)) return false;
    }
    return true;
  }

 private:
  GrpcStream(const RankPlace& place, size_t message_bytes)
      : ranks_(static_cast<size_t>(place.ranks)), message_bytes_(message_bytes) {}

  bool Exchange(size_t bytes) {
    MutexLock lock(mutex_);
    left_ += bytes;  // of the exchange before some may be left too
    expected_ += bytes;
    SendLocked();
    while (!broken_ && received_ < expected_) changed_.Wait(mutex_);
    return !broken_;
  }

  void Received(const grpc::ByteBuffer& message) {
    neighbours_->Answer();
    MutexLock lock(mutex_);
    received_ += message.Length();
    if (received_ >= expected_) changed_.NotifyAll();
  }

  void Answered() {
    MutexLock lock(mutex_);
    --unanswered_;
    SendLocked();
    if (unanswered_ == 0) changed_.NotifyAll();
  }

  void Broke(const std::string& why) {
    MutexLock lock(mutex_);
    const bool in_use = received_ < expected_ || left_ > 0 || unanswered_ > 0;
    if (in_use) std::fprintf(stderr, "a bare stream broke: %s\n", why.c_str());
    broken_ = true;
    changed_.NotifyAll();
  }

  void SendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (left_ > 0 && (unanswered_ + 1) * message_bytes_ <= kWindowBytes) {
      const size_t all = values_.size() * sizeof(float);
      const size_t bytes = std::min({left_, message_bytes_, all});
      if (next_ + bytes > all) next_ = 0;
      const char* const from = reinterpret_cast<const char*>(values_.data()) + next_;
      const grpc::Slice slice(from, bytes, grpc::Slice::STATIC_SLICE);
      next_ += bytes;
      left_ -= bytes;
      ++unanswered_;
      neighbours_->Send(grpc::ByteBuffer(&slice, 1));
    }
  }

  const size_t ranks_;
  const size_t message_bytes_;
  size_t bytes_ = 0;  // of one all-reduce
  Mutex mutex_;
  CondVar changed_;
  std::vector<float> values_ ABSL_GUARDED_BY(mutex_) = std::vector<float>(1);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // byte of the values
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t expected_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<GrpcNeighbours> neighbours_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankWork>> MakeGrpcStream(const RankPlace& place,
                                                         size_t message_bytes) {
  return GrpcStream::Make(place, message_bytes);
}

}  // namespace cohort::bench
