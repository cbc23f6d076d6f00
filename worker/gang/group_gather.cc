#include "worker/gang/group_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

namespace {

// Each gathered tensor begins at a multiple of this number of bytes, which aligns every element
// type.
constexpr size_t kAlignment = 64;
// The type of a tensor is gathered as kNumbersOfType numbers: 1 if the tensor exists, its DType,
// its rank and kAxesMax sizes. An absent tensor has zeros.
constexpr size_t kAxesMax = 13;
constexpr size_t kNumbersOfType = 3 + kAxesMax;

// Rounds `bytes` up to a multiple of kAlignment.
size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

CollectiveCall AllGather(std::string name, DType dtype, absl::Duration timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllGather;
  call.dtype = dtype;
  call.name = std::move(name);
  call.timeout = timeout;
  return call;
}

// One gathering of tensors by two collective calls, one after the other: the first gathers the
// types of all tensors, the second their bytes. Each call holds a reference to this object.
// Thread-safe.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done)
      : group_(std::move(group)), gather_(std::move(gather)), done_(std::move(done)) {}

  void Start() {
    COHORT_CHECK(gather_.own.size() <= gather_.most,
                 "a member's own part is at most the largest part");
    // Every member sends `most` types, with zeros for tensors that it does not have.
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
  // Gathers the values of all tensors as bytes. So tensors of different types are not an error of
  // the group, and the caller can report them in its own words.
  void GatherBytes(const std::vector<int64_t>& types) {
    CollectiveCall call =
        AllGather(absl::StrCat("values of ", gather_.name), DType::kUint8, gather_.timeout);
    size_t end = 0;
    // All members compute the same places from the gathered types, so they need no further call for
    // them.
    for (size_t i = 0; i < types.size(); i += kNumbersOfType) {
      // The first of a member's `most` types begins the count of this member's bytes.
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
    // A buffer must not be empty, even if no member has a tensor.
    memory_ = group_->Take(std::max<size_t>(end, 1));
    std::byte* own = memory_->data();
    for (int rank = 0; rank < group_->rank(); ++rank) own += call.counts[static_cast<size_t>(rank)];
    call.input = absl::MakeConstSpan(
        own, static_cast<size_t>(call.counts[static_cast<size_t>(group_->rank())]));
    call.output = absl::MakeSpan(memory_->data(), end);
    for (const Tensor& tensor : gather_.own) {
      const size_t bytes = tensor.num_bytes();
      if (bytes > 0) std::memcpy(own, tensor.raw(), bytes);
      // The padding after a tensor is zeroed, so that bytes of an earlier use of the memory do not
      // travel.
      std::fill(own + bytes, own + Aligned(bytes), std::byte{0});
      own += Aligned(bytes);
    }
    group_->communicator().Start(
        std::move(call), [self = shared_from_this()](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          // `done_` is posted, because it may take longer than a call's Done is allowed to.
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

  // The gang's group; shared, so that it lives until its collective calls are done.
  const std::shared_ptr<GangGroup> group_;
  const GroupGather gather_;
  GroupGathered done_;
  std::vector<Place> places_;  // the places of all gathered tensors, those of rank 0 first
  std::shared_ptr<Buffer> memory_;
};

}  // namespace

void GatherNumbers(const std::shared_ptr<GangGroup>& group, const NumbersOfMember& numbers,
                   GroupNumbers done) {
  CollectiveCall call = AllGather(numbers.name, DType::kInt64, numbers.timeout);
  const size_t count = numbers.own.size();
  const auto members = static_cast<size_t>(group->size());
  call.counts.assign(members, static_cast<int64_t>(count));
  // The call's input is this member's part of the call's output, so the numbers are gathered in
  // place.
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
