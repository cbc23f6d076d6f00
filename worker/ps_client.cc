#include "worker/ps_client.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/error_detail.h"
#include "proto/ps.pb.h"

namespace cohort {

namespace {

constexpr char kPullMethod[] = "/cohort.proto.PsService/Pull";
constexpr char kPushMethod[] = "/cohort.proto.PsService/Push";
constexpr char kAssignMethod[] = "/cohort.proto.PsService/Assign";

void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  for (const int64_t dim : slice.shape.dims()) meta->add_dims(dim);
}

bool SameMeta(const VariableType& type, const SliceTransfer& slice, const proto::TensorMeta& meta) {
  return meta.dtype() == static_cast<int32_t>(type.dtype) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             slice.shape;
}

// The rows of `value` that belong to the slice, without a copy.
void AddBytes(const Tensor& value, const SliceTransfer& slice, Payload& payload) {
  if (slice.bytes == 0) return;
  payload.push_back(ByteSlice{value.buffer(), value.raw() + slice.offset, slice.bytes});
}

void FillIdsMeta(size_t count, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(DType::kInt64));
  meta->add_dims(static_cast<int64_t>(count));
}

void AddIds(const PsClient::Rows& rows, size_t variable, const RowRun& run, Payload& payload) {
  if (run.count == 0) return;
  payload.push_back(
      ByteSlice{rows, reinterpret_cast<const std::byte*>((*rows)[variable].data() + run.begin),
                run.count * sizeof(int64_t)});
}

Shape RunShape(const VariableType& type, const RowRun& run) {
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  dims[0] = static_cast<int64_t>(run.count);
  return Shape(absl::MakeConstSpan(dims));
}

void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  const Shape shape = RunShape(type, run);
  for (const int64_t dim : shape.dims()) meta->add_dims(dim);
}

bool SameRowsMeta(const VariableType& type, const RowRun& run, const proto::TensorMeta& meta) {
  return meta.dtype() == static_cast<int32_t>(type.dtype) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             RunShape(type, run);
}

absl::Status BadAnswer(uint32_t ps, absl::string_view what) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  detail.mutable_origin()->set_role(RoleName(Role::kPs));
  detail.mutable_origin()->set_index(static_cast<int32_t>(ps));
  return WithDetail(absl::InternalError(absl::StrCat("ps:", ps, " answered a pull with ", what)),
                    detail);
}

}  // namespace

// Counts the answers of one operation. Thread-safe.
class PsClient::FanOut {
 public:
  FanOut(size_t parts, Done done) : results_(parts), left_(parts), done_(std::move(done)) {}

  // Once for each part.
  void Finish(size_t part, absl::Status result) {
    Done done;
    absl::Status first;
    {
      MutexLock lock(mutex_);
      results_[part] = std::move(result);
      if (--left_ > 0) return;
      for (absl::Status& status : results_) first.Update(status);
      done = std::move(done_);
    }
    done(std::move(first));
  }

 private:
  Mutex mutex_;
  std::vector<absl::Status> results_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_);
  Done done_ ABSL_GUARDED_BY(mutex_);
};

// The tensors that the answers of a pull are copied into. Each part writes rows and versions of its
// own, so parts need no lock between them; FanOut orders them before the reader.
class PsClient::PullState {
 public:
  PullState(Plan plan, Rows rows, const PsClient& client)
      : plan_(std::move(plan)), rows_(std::move(rows)) {
    for (size_t i = 0; i < plan_->variables.size(); ++i) {
      const VariableType& type = plan_->variables[i];
      const Shape shape = type.by_rows ? RowsShape(type, (*rows_)[i].size()) : type.shape;
      pulled_.values.push_back(client.Allocate(type, shape));
      if (type.by_rows && (*rows_)[i].empty()) {
        std::memset(pulled_.values.back().mutable_raw(), 0, pulled_.values.back().num_bytes());
      }
    }
    pulled_.versions.resize(plan_->num_slices);
  }

  Pulled Take() { return std::move(pulled_); }

  Envelope<proto::PullRequest> Request(size_t part, uint64_t epoch) const {
    const PsTransfer& home = plan_->by_ps[part];
    Envelope<proto::PullRequest> request;
    request.answer_bytes = home.bytes + RowBytes(home);
    request.header.set_epoch(epoch);
    for (const SliceTransfer& slice : home.slices) request.header.add_slice_ids(slice.slice_id);
    for (const RowSlice& slice : home.row_slices) {
      const RowRun run = RunOf(slice);
      proto::PullRows* const rows = request.header.add_rows();
      rows->set_slice_id(slice.slice_id);
      FillIdsMeta(run.count, rows->mutable_ids());
      AddIds(rows_, slice.variable, run, request.payload);
    }
    return request;
  }

  absl::Status Read(size_t part, const Envelope<proto::PullResponse>& answer) {
    const PsTransfer& home = plan_->by_ps[part];
    const auto whole = static_cast<int>(home.slices.size());
    const int count = whole + static_cast<int>(home.row_slices.size());
    const size_t bytes = home.bytes + RowBytes(home);
    if (answer.header.tensors_size() != count || answer.header.versions_size() != count ||
        PayloadBytes(answer.payload) != bytes) {
      return BadAnswer(home.ps, absl::StrCat(answer.header.tensors_size(), " tensors of ",
                                             PayloadBytes(answer.payload), " bytes, not ", count,
                                             " of ", bytes));
    }
    PayloadReader reader(answer.payload);
    for (int i = 0; i < count; ++i) {
      const proto::TensorMeta& meta = answer.header.tensors(i);
      const Place place = i < whole
                              ? PlaceOf(home.slices[static_cast<size_t>(i)], meta)
                              : PlaceOf(home.row_slices[static_cast<size_t>(i - whole)], meta);
      if (!place.fits) {
        return BadAnswer(home.ps, absl::StrCat("a slice ", place.slice_id,
                                               " of another type or shape"));
      }
      RETURN_IF_ERROR(reader.Read(place.bytes));
      pulled_.versions[place.ordinal] = answer.header.versions(i);
    }
    return absl::OkStatus();
  }

 private:
  // Where the bytes of a slice belong, and whether they are what was asked for.
  struct Place {
    bool fits = false;
    uint32_t slice_id = 0;
    size_t ordinal = 0;
    absl::Span<std::byte> bytes;
  };

  RowRun RunOf(const RowSlice& slice) const {
    return RowsOfSlice((*rows_)[slice.variable], slice);
  }

  size_t RowBytes(const PsTransfer& home) const {
    size_t bytes = 0;
    for (const RowSlice& slice : home.row_slices) {
      bytes += RunOf(slice).count * plan_->variables[slice.variable].row_bytes();
    }
    return bytes;
  }

  Place PlaceOf(const SliceTransfer& slice, const proto::TensorMeta& meta) {
    std::byte* const rows = pulled_.values[slice.variable].mutable_raw() + slice.offset;
    return {SameMeta(plan_->variables[slice.variable], slice, meta), slice.slice_id, slice.ordinal,
            absl::MakeSpan(rows, slice.bytes)};
  }

  Place PlaceOf(const RowSlice& slice, const proto::TensorMeta& meta) {
    const VariableType& type = plan_->variables[slice.variable];
    const RowRun run = RunOf(slice);
    std::byte* const rows =
        pulled_.values[slice.variable].mutable_raw() + run.begin * type.row_bytes();
    return {SameRowsMeta(type, run, meta), slice.slice_id, slice.ordinal,
            absl::MakeSpan(rows, run.count * type.row_bytes())};
  }

  const Plan plan_;
  const Rows rows_;
  Pulled pulled_;
};

PsClient::PsClient(World world, RetryPolicy policy)
    : world_(world), policy_(policy), pool_(std::make_shared<OutputPool>()) {}

void PsClient::SetPeers(const google::protobuf::RepeatedPtrField<proto::Peer>& peers,
                        absl::Duration window) {
  // What is replaced dies after the lock.
  std::map<uint32_t, std::shared_ptr<PsLink>> replaced;
  std::vector<PsRoute> before;
  MutexLock lock(mutex_);
  replaced.swap(links_);
  for (const proto::Peer& peer : peers) {
    const auto index = static_cast<uint32_t>(peer.task().index());
    PsRoute route{peer.task(), peer.address(), nullptr, window};
    std::shared_ptr<PsLink>& link = links_[index];
    if (const auto known = replaced.find(index); known != replaced.end()) {
      link = known->second;
      before.push_back(link->route());
      if (before.back().address == route.address) route.channel = before.back().channel;
    }
    if (route.channel == nullptr) {
      route.channel = world_.transport.Connect(route.address, Lane::kData);
    }
    if (link == nullptr) {
      link = std::make_shared<PsLink>(std::move(route));
    } else {
      link->Reroute(std::move(route));
    }
  }
}

std::shared_ptr<PsLink> PsClient::LinkOf(uint32_t ps) const {
  MutexLock lock(mutex_);
  const auto found = links_.find(ps);
  return found == links_.end() ? nullptr : found->second;
}

void PsClient::Call(uint32_t ps, const char* method, Message request, PsCaller caller,
                    Reply done) {
  if (std::shared_ptr<PsLink> link = LinkOf(ps); link != nullptr) {
    return StartPsCall(world_, policy_, std::move(link), method, std::move(request),
                       std::move(caller), std::move(done));
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role(RoleName(Role::kPs));
  detail.mutable_origin()->set_index(static_cast<int32_t>(ps));
  const absl::Status unknown = WithDetail(
      absl::UnavailableError(absl::StrCat("the coordinator has not told where ps:", ps, " is")),
      detail);
  world_.executor.Run([done = std::move(done), unknown]() mutable { done(unknown); });
}

Tensor PsClient::Allocate(const VariableType& type, const Shape& shape) const {
  size_t bytes = static_cast<size_t>(shape.num_elements()) * ElementSize(type.dtype);
  // The pool keeps buffers by size, and numbers of rows differ from step to step.
  if (type.by_rows) bytes = std::bit_ceil(std::max<size_t>(bytes, 1));
  return Tensor(type.dtype, shape, pool_->Take(bytes), 0);
}

void PsClient::Pull(Plan plan, Rows rows, const TransferContext& context, PullDone done) {
  auto state = std::make_shared<PullState>(plan, std::move(rows), *this);
  auto fan_out = std::make_shared<FanOut>(
      plan->by_ps.size(), [state, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(state->Take());
      });
  for (size_t part = 0; part < plan->by_ps.size(); ++part) {
    Call(plan->by_ps[part].ps, kPullMethod, Pack(state->Request(part, context.epoch)),
         context.caller,
         [self = shared_from_this(), state, fan_out, part](absl::StatusOr<Message> answer) {
           if (!answer.ok()) return fan_out->Finish(part, answer.status());
           const size_t bytes = PayloadBytes(answer->payload);
           Task read = [state, fan_out, part, message = *std::move(answer)]() mutable {
             auto response = Unpack<proto::PullResponse>(std::move(message));
             fan_out->Finish(part, response.ok() ? state->Read(part, *response)
                                                 : response.status());
           };
           if (bytes <= kInlineCopyBytesMax) return read();
           self->world_.executor.Run(std::move(read));
         });
  }
}

void PsClient::AddGradients(const PsTransfer& home, const TransferPlan& plan,
                            const Gradients& gradients, Envelope<proto::PushRequest>& request) {
  for (const SliceTransfer& slice : home.slices) {
    proto::PushSlice* const pushed = request.header.add_slices();
    pushed->set_slice_id(slice.slice_id);
    pushed->set_pulled_version(gradients.versions[slice.ordinal]);
    FillMeta(plan.variables[slice.variable], slice, pushed->mutable_tensor());
    AddBytes(gradients.values[slice.variable], slice, request.payload);
  }
  for (const RowSlice& slice : home.row_slices) {
    const VariableType& type = plan.variables[slice.variable];
    const RowRun run = RowsOfSlice((*gradients.rows)[slice.variable], slice);
    proto::PushSlice* const pushed = request.header.add_slices();
    pushed->set_slice_id(slice.slice_id);
    pushed->set_pulled_version(gradients.versions[slice.ordinal]);
    FillRowsMeta(type, run, pushed->mutable_tensor());
    FillIdsMeta(run.count, pushed->mutable_ids());
    AddIds(gradients.rows, slice.variable, run, request.payload);
    if (run.count == 0) continue;
    const Tensor& value = gradients.values[slice.variable];
    request.payload.push_back(ByteSlice{value.buffer(),
                                        value.raw() + run.begin * type.row_bytes(),
                                        run.count * type.row_bytes()});
  }
}

void PsClient::Push(Plan plan, Gradients gradients, const TransferContext& context,
                    const PushContext& push, PushDone done) {
  auto open_rounds = std::make_shared<std::atomic<uint64_t>>(0);
  auto fan_out = std::make_shared<FanOut>(
      plan->by_ps.size(), [open_rounds, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(open_rounds->load());
      });
  for (size_t part = 0; part < plan->by_ps.size(); ++part) {
    const PsTransfer& home = plan->by_ps[part];
    Envelope<proto::PushRequest> request;
    request.header.set_epoch(context.epoch);
    request.header.set_closure_id(push.closure_id);
    request.header.set_attempt(push.attempt);
    request.header.set_worker_incarnation(push.worker_incarnation);
    request.header.set_watermark(push.watermark);
    request.header.set_learning_rate(push.learning_rate);
    request.header.set_step(push.step);
    request.header.set_round(push.round);
    request.header.set_aggregate(push.aggregate);
    AddGradients(home, *plan, gradients, request);
    Call(home.ps, kPushMethod, Pack(std::move(request)), context.caller,
         [fan_out, part, open_rounds](absl::StatusOr<Message> answer) {
           if (!answer.ok()) return fan_out->Finish(part, answer.status());
           const auto response = Unpack<proto::PushResponse>(*std::move(answer));
           if (response.ok()) *open_rounds += response->header.open_rounds();
           fan_out->Finish(part, response.status());
         });
  }
}

void PsClient::Assign(Plan plan, std::vector<Tensor> values, const TransferContext& context,
                      Done done) {
  auto fan_out = std::make_shared<FanOut>(plan->by_ps.size(), std::move(done));
  for (size_t part = 0; part < plan->by_ps.size(); ++part) {
    const PsTransfer& home = plan->by_ps[part];
    Envelope<proto::AssignRequest> request;
    request.header.set_epoch(context.epoch);
    for (const SliceTransfer& slice : home.slices) {
      request.header.add_slice_ids(slice.slice_id);
      FillMeta(plan->variables[slice.variable], slice, request.header.add_tensors());
      AddBytes(values[slice.variable], slice, request.payload);
    }
    Call(home.ps, kAssignMethod, Pack(std::move(request)), context.caller,
         [fan_out, part](absl::StatusOr<Message> answer) {
           fan_out->Finish(part, answer.status());
         });
  }
}

}  // namespace cohort
