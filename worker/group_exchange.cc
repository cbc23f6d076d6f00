#include "worker/group_exchange.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"

namespace cohort {

namespace {

// Values that workers gather begin at multiples of it, so that each is as aligned as its type asks.
constexpr int64_t kAlignment = 64;
// A gathered value in numbers, always as many: 1 where it counts, type, rank, sizes.
constexpr size_t kAxesMax = 13;
constexpr size_t kNumbersOfType = 3 + kAxesMax;

using Numbers = std::vector<int64_t>;

// One exchange. Thread-safe: its calls follow each other. Shared with them.
class GroupExchange : public std::enable_shared_from_this<GroupExchange> {
 public:
  GroupExchange(MeetingWorkers workers, ExchangeCall joined, GroupExchanged done)
      : workers_(std::move(workers)), joined_(std::move(joined)), done_(std::move(done)) {}

  void Start() {
    switch (joined_.op) {
      case ExchangeCall::Op::kGather:
        return GatherTypes();
      case ExchangeCall::Op::kSumPart:
        return GatherSizes();
      default:
        return Sum();
    }
  }

 private:
  int size() const { return workers_.group->size(); }

  void Sum() {
    std::vector<GroupSummand> summands;
    // With the type in the name workers that have others hear so.
    summands.push_back({absl::StrCat(joined_.node, " ", joined_.value.TypeString()), joined_.value,
                        workers_.neutral});
    SumOverGroup(workers_.group, workers_.communication, std::move(summands),
                 [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> sums) {
                   if (!sums.ok()) return self->done_(sums.status());
                   self->whole_.value = std::move((*sums)[0]);
                   self->done_(std::move(self->whole_));
                 });
  }

  void GatherSizes() {
    Gather({workers_.neutral ? 0 : joined_.size}, "sizes",
           [self = shared_from_this()](const Numbers& sizes) {
             const auto own = sizes.begin() + self->workers_.group->rank();
             for (auto it = sizes.begin(); it != sizes.end(); ++it) {
               self->whole_.size += *it;
               if (it < own) self->whole_.begin += *it;
             }
             if (self->workers_.neutral)
               self->whole_.begin = self->whole_.size - self->joined_.size;
             self->Sum();
           });
  }

  void GatherTypes() {
    const Shape& shape = joined_.value.shape();
    if (static_cast<size_t>(shape.rank()) > kAxesMax) {
      return done_(absl::InvalidArgumentError(
          absl::StrCat("replicas of several workers gather ", joined_.value.TypeString(),
                       ", which has ", shape.rank(), " axes: ", kAxesMax, " at most")));
    }
    Numbers own(kNumbersOfType, 0);
    own[0] = workers_.neutral ? 0 : 1;
    own[1] = static_cast<int64_t>(joined_.value.dtype());
    own[2] = shape.rank();
    std::copy(shape.dims().begin(), shape.dims().end(), own.begin() + 3);
    Gather(own, "types",
           [self = shared_from_this()](const Numbers& types) { self->GatherValues(types); });
  }

  // As bytes: types that differ are to be an error in words, not of the group.
  void GatherValues(const Numbers& types) {
    CollectiveCall call = NewCall("values", DType::kUint8);
    int64_t end = 0;
    for (size_t rank = 0; rank < static_cast<size_t>(size()); ++rank) {
      const int64_t* const type = &types[rank * kNumbersOfType];
      Value value;
      value.begin = end;
      value.counts = type[0] != 0;
      value.dtype = static_cast<DType>(type[1]);
      value.shape = Shape(absl::MakeConstSpan(type + 3, static_cast<size_t>(type[2])));
      const int64_t bytes =
          value.counts ? value.shape.num_elements() * static_cast<int64_t>(ElementSize(value.dtype))
                       : 0;
      call.counts.push_back((bytes + kAlignment - 1) / kAlignment * kAlignment);
      end += call.counts.back();
      values_.push_back(std::move(value));
    }
    memory_ = workers_.group->Take(static_cast<size_t>(std::max<int64_t>(end, 1)));
    const auto rank = static_cast<size_t>(workers_.group->rank());
    std::byte* const own = memory_->data() + values_[rank].begin;
    const auto own_bytes = static_cast<size_t>(call.counts[rank]);
    const size_t bytes = values_[rank].counts ? joined_.value.num_bytes() : 0;
    if (bytes > 0) std::memcpy(own, joined_.value.raw(), bytes);
    std::fill(own + bytes, own + own_bytes, std::byte{0});
    call.input = absl::MakeConstSpan(own, own_bytes);
    call.output = absl::MakeSpan(memory_->data(), static_cast<size_t>(end));
    workers_.group->communicator().Start(std::move(call),
                                         [self = shared_from_this()](const absl::Status& status) {
                                           if (!status.ok()) return self->done_(status);
                                           self->workers_.group->RunElsewhere(
                                               [self] { self->done_(self->Gathered()); });
                                         });
  }

  absl::StatusOr<WholeExchange> Gathered() {
    std::vector<Tensor> parts;
    for (const Value& value : values_) {
      if (!value.counts) continue;
      parts.emplace_back(value.dtype, value.shape, memory_, static_cast<size_t>(value.begin));
    }
    ASSIGN_OR_RETURN(whole_.value, Concatenated(parts, joined_.axis));
    return std::move(whole_);
  }

  // The same number of numbers from each worker, one behind the other in the order of ranks.
  template <typename Then>
  void Gather(const Numbers& own, const char* what, Then then) {
    CollectiveCall call = NewCall(what, DType::kInt64);
    call.counts.assign(static_cast<size_t>(size()), static_cast<int64_t>(own.size()));
    auto all = std::make_shared<Numbers>(own.size() * static_cast<size_t>(size()));
    int64_t* const place = all->data() + own.size() * static_cast<size_t>(workers_.group->rank());
    std::copy(own.begin(), own.end(), place);
    call.output =
        absl::MakeSpan(reinterpret_cast<std::byte*>(all->data()), all->size() * sizeof(int64_t));
    call.input = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(place),
                                     own.size() * sizeof(int64_t));
    workers_.group->communicator().Start(
        std::move(call), [self = shared_from_this(), all, then](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          self->workers_.group->RunElsewhere([all, then] { then(*all); });
        });
  }

  CollectiveCall NewCall(const char* what, DType dtype) const {
    CollectiveCall call;
    call.op = CollectiveOp::kAllGather;
    call.dtype = dtype;
    call.name = absl::StrCat(what, " of ", joined_.node);
    call.timeout = workers_.communication.timeout;
    return call;
  }

  // What a worker gathers.
  struct Value {
    int64_t begin = 0;  // in bytes, of the memory
    bool counts = false;
    DType dtype = DType::kUndefined;
    Shape shape;
  };

  const MeetingWorkers workers_;
  const ExchangeCall joined_;
  GroupExchanged done_;
  WholeExchange whole_;
  std::vector<Value> values_;  // by rank
  std::shared_ptr<Buffer> memory_;
};

}  // namespace

void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done) {
  std::make_shared<GroupExchange>(workers, std::move(joined), std::move(done))->Start();
}

}  // namespace cohort
