#include "worker/gang/group_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

namespace {

// Each tensor begins at a multiple of this alignment, which satisfies every element type.
constexpr size_t kAlignment = 64;
// A tensor's type is gathered as a fixed count of numbers: 1 if the tensor exists, dtype, rank, and
// kAxesMax sizes.
constexpr size_t kAxesMax = 13;
constexpr size_t kNumbersOfType = 3 + kAxesMax;

// Rounds `bytes` up to a multiple of the alignment.
size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

CollectiveCall AllGather(std::string name, DType dtype, absl::Duration timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllGather;
  call.dtype = dtype;
  call.name = std::move(name);
  call.timeout = timeout;
  return call;
}

// One gathering in two collective calls: first the types of all tensors, then their bytes. The
// calls follow each other and hold a reference to the gathering. Thread-safe.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done)
      : group_(std::move(group)), gather_(std::move(gather)), done_(std::move(done)) {}

  void Start() {
    COHORT_CHECK(gather_.own.size() <= gather_.most, "no more than a member has");
    // Every member sends the types of `most` tensors; the type of a missing tensor is zeros.
    std::vector<int64_t> types(gather_.most * kNumbersOfType, 0);
    for (size_t i = 0; i < gather_.own.size(); ++i) {
      const Tensor& tensor = gather_.own[i];
      const Shape& shape = tensor.shape();
      if (static_cast<size_t>(shape.rank()) > kAxesMax) {
        return done_(absl::InvalidArgumentError(
            absl::StrCat("workers gather ", tensor.TypeString(), " for ", gather_.name,
                         ", which has ", shape.rank(), " axes: ", kAxesMax, " at most")));
      }
      const auto type = types.begin() + static_cast<ptrdiff_t>(i * kNumbersOfType);
      type[0] = 1;
      type[1] = static_cast<int64_t>(tensor.dtype());
      type[2] = shape.rank();
      std::copy(shape.dims().begin(), shape.dims().end(), type + 3);
    }
    GatherNumbers(group_, {absl::StrCat("types of ", gather_.name), types, gather_.timeout},
                  [self = shared_from_this()](absl::StatusOr<std::vector<int64_t>> all) {
                    if (!all.ok()) return self->done_(all.status());
                    self->GatherBytes(*all);
                  });
  }

 private:
  // Gathers the values of all tensors as bytes. So members with different types do not end the
  // group, and the caller can report a readable error.
  void GatherBytes(const std::vector<int64_t>& types) {
    CollectiveCall call =
        AllGather(absl::StrCat("values of ", gather_.name), DType::kUint8, gather_.timeout);
    size_t end = 0;
    // All members compute the same offsets of all tensors from the gathered types, without a
    // further call.
    for (size_t i = 0; i < types.size(); i += kNumbersOfType) {
      // The list has `most` types for each member.
      if (i % (gather_.most * kNumbersOfType) == 0) call.counts.push_back(0);
      if (types[i] == 0) continue;
      Place place;
      place.begin = end;
      place.dtype = static_cast<DType>(types[i + 1]);
      place.shape = Shape(absl::MakeConstSpan(&types[i + 3], static_cast<size_t>(types[i + 2])));
      const size_t bytes =
          Aligned(static_cast<size_t>(place.shape.num_elements()) * ElementSize(place.dtype));
      call.counts.back() += static_cast<int64_t>(bytes);
      end += bytes;
      places_.push_back(std::move(place));
    }
    // The gathered buffer must not be empty, even if no member has a tensor.
    memory_ = group_->Take(std::max<size_t>(end, 1));
    std::byte* own = memory_->data();
    for (int rank = 0; rank < group_->rank(); ++rank) own += call.counts[static_cast<size_t>(rank)];
    call.input = absl::MakeConstSpan(
        own, static_cast<size_t>(call.counts[static_cast<size_t>(group_->rank())]));
    call.output = absl::MakeSpan(memory_->data(), end);
    for (const Tensor& tensor : gather_.own) {
      const size_t bytes = tensor.num_bytes();
      if (bytes > 0) std::memcpy(own, tensor.raw(), bytes);
      // The padding after a tensor is zeroed, so that bytes of an earlier use do not travel.
      std::fill(own + bytes, own + Aligned(bytes), std::byte{0});
      own += Aligned(bytes);
    }
    group_->communicator().Start(
        std::move(call), [self = shared_from_this()](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          // `done` is posted, because it may take longer than a call's Done is allowed to.
          self->group_->RunElsewhere([self] { self->done_(self->Gathered()); });
        });
  }

  std::vector<Tensor> Gathered() const {
    std::vector<Tensor> all;
    for (const Place& place : places_) {
      all.emplace_back(place.dtype, place.shape, memory_, place.begin);
    }
    return all;
  }

  struct Place {
    size_t begin = 0;  // offset of the tensor in the gathered memory, in bytes
    DType dtype = DType::kUndefined;
    Shape shape;
  };

  // The gang's group; shared, so that it lives until its calls are done.
  const std::shared_ptr<GangGroup> group_;
  const GroupGather gather_;
  GroupGathered done_;
  std::vector<Place> places_;  // all gathered tensors, in the order of ranks
  std::shared_ptr<Buffer> memory_;
};

}  // namespace

void GatherNumbers(const std::shared_ptr<GangGroup>& group, const NumbersOfMember& numbers,
                   GroupNumbers done) {
  CollectiveCall call = AllGather(numbers.name, DType::kInt64, numbers.timeout);
  const size_t count = numbers.own.size();
  const auto members = static_cast<size_t>(group->size());
  call.counts.assign(members, static_cast<int64_t>(count));
  // The call's input is this member's part of the output, so the numbers are gathered in place.
  auto all = std::make_shared<std::vector<int64_t>>(count * members);
  int64_t* const place = all->data() + count * static_cast<size_t>(group->rank());
  std::copy(numbers.own.begin(), numbers.own.end(), place);
  call.output =
      absl::MakeSpan(reinterpret_cast<std::byte*>(all->data()), all->size() * sizeof(int64_t));
  call.input =
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(place), count * sizeof(int64_t));
  group->communicator().Start(
      std::move(call), [group, all, done = std::move(done)](const absl::Status& status) mutable {
        if (!status.ok()) return done(status);
        group->RunElsewhere([all, done = std::move(done)]() mutable { done(std::move(*all)); });
      });
}

void GatherOverGroup(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done) {
  std::make_shared<Gathering>(std::move(group), std::move(gather), std::move(done))->Start();
}

}  // namespace cohort
