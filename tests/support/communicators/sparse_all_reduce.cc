#include "tests/support/communicators/sparse_all_reduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"

namespace cohort {

namespace {

absl::Status CheckSparse(const SparseCall& call) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("sparse all-reduce '", call.name, "': ", why));
  };
  if (call.reduce != ReduceOp::kSum && call.reduce != ReduceOp::kMean) {
    return refuse(absl::StrCat("the reduction ", ReduceName(call.reduce),
                               " is not defined for rows that a rank lacks; use sum or mean"));
  }
  if (call.mine.partial || call.mine.row_elements < 1 ||
      call.mine.rows.size() != call.mine.ids.size() * call.mine.RowBytes()) {
    return refuse(absl::StrCat("the rows have ", call.mine.rows.size(), " bytes, ",
                               call.mine.ids.size(), " ids; give ", call.mine.RowBytes(),
                               " for each id"));
  }
  for (const int64_t id : call.mine.ids) {
    if (id >= 0 && id < call.table_rows) continue;
    return refuse(absl::StrCat("the id ", id, " is not in a table of ", call.table_rows, " rows"));
  }
  return absl::OkStatus();
}

// The rank that sums the row: ranges of the table, as equal as can be.
int OwnerOf(int64_t id, int64_t table_rows, int n) {
  return static_cast<int>(static_cast<__int128>(id) * n / table_rows);
}

template <typename T>
absl::Span<const std::byte> BytesIn(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
absl::Span<std::byte> RoomIn(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

std::vector<int64_t> Times(std::vector<int64_t> counts, int64_t factor) {
  for (int64_t& count : counts) count *= factor;
  return counts;
}

int64_t Sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

struct SparseAllReduce::Queue {
  Queue(Communicator& communicator_in, Executor& executor_in)
      : communicator(communicator_in), executor(executor_in) {}
  Communicator& communicator;
  Executor& executor;
  Mutex mutex;
  bool running ABSL_GUARDED_BY(mutex) = false;
  std::deque<std::shared_ptr<Run>> waiting ABSL_GUARDED_BY(mutex);  // shared with its calls
};

// One call on its way through the communicator's. Each step begins when the one before is done, so
// it needs no lock. Thread-compatible.
class SparseAllReduce::Run : public std::enable_shared_from_this<Run> {
 public:
  Run(std::shared_ptr<Queue> queue, SparseCall call, Done done)
      : queue_(std::move(queue)),
        ranks_(queue_->communicator),
        n_(static_cast<size_t>(ranks_.size())),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Begin() {
    const absl::Status status = CheckSparse(call_);
    if (!status.ok()) ranks_.Abort(status);  // the next call of ours shows it on every rank
    if (call_.form == SparseForm::kConcatenated) {
      rows_ = std::move(call_.mine);
      return GatherCounts();
    }
    if (status.ok()) rows_ = MergeOwn(call_.mine);
    call_.mine = {};
    ExchangeCounts();
  }

 private:
  using Step = void (Run::*)();

  CollectiveCall CallOf(CollectiveOp op, absl::string_view what, DType dtype) const {
    CollectiveCall call;
    call.op = op;
    call.dtype = dtype;
    call.name = absl::StrCat(call_.name, " ", what);
    call.layout =
        Mix64(Mix64(static_cast<uint64_t>(call_.table_rows)) +
              Mix64(static_cast<uint64_t>(rows_.row_elements)) * 3 +
              static_cast<uint64_t>(rows_.dtype) * 16 + static_cast<uint64_t>(call_.form) * 4 +
              static_cast<uint64_t>(call_.reduce));
    return call;
  }

  void Then(CollectiveCall call, Step next) {
    ranks_.Start(std::move(call), [self = shared_from_this(), next](absl::Status status) {
      self->queue_->executor.Run([self, next, status = std::move(status)]() mutable {
        if (!status.ok()) return self->End(std::move(status));
        ((*self).*next)();
      });
    });
  }

  DType RowType() const { return rows_.partial ? AccumulatorOf(rows_.dtype) : rows_.dtype; }

  // How many of our rows each owner gets, and from that how many we get as an owner.
  void ExchangeCounts() {
    send_counts_.assign(n_, 0);
    for (const int64_t id : rows_.ids) {
      ++send_counts_[static_cast<size_t>(OwnerOf(id, call_.table_rows, ranks_.size()))];
    }
    receive_counts_.assign(n_, 0);
    CollectiveCall call = CallOf(CollectiveOp::kAllToAll, "counts", DType::kInt64);
    call.counts.assign(n_, 1);
    call.receive_counts.assign(n_, 1);
    call.input = BytesIn(send_counts_);
    call.output = RoomIn(receive_counts_);
    Then(std::move(call), &Run::ExchangeIds);
  }

  void ExchangeIds() {
    got_.dtype = rows_.dtype;
    got_.partial = rows_.partial;
    got_.row_elements = rows_.row_elements;
    got_.ids.resize(static_cast<size_t>(Sum(receive_counts_)));
    CollectiveCall call = CallOf(CollectiveOp::kAllToAll, "ids", DType::kInt64);
    call.counts = send_counts_;
    call.receive_counts = receive_counts_;
    call.input = BytesIn(rows_.ids);
    call.output = RoomIn(got_.ids);
    Then(std::move(call), &Run::ExchangeRows);
  }

  void ExchangeRows() {
    got_.rows.resize(got_.ids.size() * got_.RowBytes());
    CollectiveCall call = CallOf(CollectiveOp::kAllToAll, "rows", RowType());
    call.counts = Times(send_counts_, rows_.row_elements);
    call.receive_counts = Times(receive_counts_, rows_.row_elements);
    call.input = BytesIn(rows_.rows);
    call.output = RoomIn(got_.rows);
    Then(std::move(call), &Run::MergeGot);
  }

  void MergeGot() {
    std::vector<SparseRows> by_rank;
    size_t first = 0;
    for (const int64_t count : receive_counts_) {
      const auto end = first + static_cast<size_t>(count);
      const auto row = static_cast<int64_t>(got_.RowBytes());
      const auto id = [](size_t i) { return static_cast<int64_t>(i); };
      by_rank.push_back({got_.dtype,
                         got_.partial,
                         got_.row_elements,
                         {got_.ids.begin() + id(first), got_.ids.begin() + id(end)},
                         {got_.rows.begin() + id(first) * row, got_.rows.begin() + id(end) * row}});
      first = end;
    }
    rows_ = Finished(MergeTree(std::move(by_rank)), Divisor());
    got_ = {};
    GatherCounts();
  }

  int64_t Divisor() const { return call_.reduce == ReduceOp::kMean ? ranks_.size() : 1; }

  // From here on the same for both forms: everybody's rows to everybody.
  void GatherCounts() {
    own_count_ = {rows_.count()};
    receive_counts_.assign(n_, 0);
    CollectiveCall call = CallOf(CollectiveOp::kAllGather, "lengths", DType::kInt64);
    call.counts.assign(n_, 1);
    call.input = BytesIn(own_count_);
    call.output = RoomIn(receive_counts_);
    Then(std::move(call), &Run::GatherIds);
  }

  void GatherIds() {
    got_ = {rows_.dtype, false, rows_.row_elements, {}, {}};
    got_.ids.resize(static_cast<size_t>(Sum(receive_counts_)));
    CollectiveCall call = CallOf(CollectiveOp::kAllGather, "all ids", DType::kInt64);
    call.counts = receive_counts_;
    call.input = BytesIn(rows_.ids);
    call.output = RoomIn(got_.ids);
    Then(std::move(call), &Run::GatherRows);
  }

  void GatherRows() {
    got_.rows.resize(got_.ids.size() * got_.RowBytes());
    CollectiveCall call = CallOf(CollectiveOp::kAllGather, "all rows", rows_.dtype);
    call.counts = Times(receive_counts_, rows_.row_elements);
    call.input = BytesIn(rows_.rows);
    call.output = RoomIn(got_.rows);
    Then(std::move(call), &Run::Gathered);
  }

  void Gathered() {
    const bool divide = call_.form == SparseForm::kConcatenated && Divisor() != 1;
    End(divide ? Finished(std::move(got_), Divisor()) : std::move(got_));
  }

  void End(absl::StatusOr<SparseRows> result) {
    const std::shared_ptr<Queue> queue = queue_;
    done_(std::move(result));
    Next(queue);
  }

  const std::shared_ptr<Queue> queue_;  // shared by all runs
  Communicator& ranks_;
  const size_t n_;
  SparseCall call_;
  Done done_;
  SparseRows rows_;  // ours: what is sent
  SparseRows got_;
  std::vector<int64_t> own_count_;
  std::vector<int64_t> send_counts_;
  std::vector<int64_t> receive_counts_;
};

SparseAllReduce::SparseAllReduce(Communicator& communicator, Executor& executor)
    : queue_(std::make_shared<Queue>(communicator, executor)) {}

SparseAllReduce::~SparseAllReduce() = default;

void SparseAllReduce::Start(SparseCall call, Done done) {
  auto run = std::make_shared<Run>(queue_, std::move(call), std::move(done));
  {
    MutexLock lock(queue_->mutex);
    queue_->waiting.push_back(std::move(run));
    if (queue_->running) return;
    queue_->running = true;
  }
  Next(queue_);
}

void SparseAllReduce::Next(const std::shared_ptr<Queue>& queue) {
  std::shared_ptr<Run> run;
  {
    MutexLock lock(queue->mutex);
    if (queue->waiting.empty()) {
      queue->running = false;
      return;
    }
    run = std::move(queue->waiting.front());
    queue->waiting.pop_front();
  }
  run->Begin();
}

}  // namespace cohort
