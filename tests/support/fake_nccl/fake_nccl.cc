#include "tests/support/fake_nccl/fake_nccl.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_nccl/fake_context.h"
#include "worker/collective/reduce_tree.h"

namespace cohort {

namespace {

using Kind = NcclStep::Kind;
using OperationPtr = std::shared_ptr<FakeOperation>;

constexpr int32_t kRemoteError = 7001;

bool IsPaired(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

bool SameOperation(const FakeOperation& a, const FakeOperation& b) {
  return a.kind == b.kind && a.run.count == b.run.count && a.run.type == b.run.type &&
         a.reduction == b.reduction && a.peer == b.peer;
}

DType TypeOf(NcclType type) {
  static constexpr DType kTypes[] = {DType::kUint8, DType::kInt32, DType::kInt64, DType::kFloat32,
                                     DType::kFloat64};
  return kTypes[static_cast<size_t>(type)];
}

ReduceOp OpOf(NcclReduction reduction) {
  static constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin,
                                      ReduceOp::kMax};
  return kOps[static_cast<size_t>(reduction)];
}

// As NCCL's min and max of floats: what is not a NaN wins.
template <typename T>
void Extreme(NcclReduction reduction, absl::Span<const Operand> operands, uint64_t count, T* out) {
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(&out[i], operands[0].data + i * sizeof(T), sizeof(T));
    for (const Operand& operand : operands) {
      T value;
      std::memcpy(&value, operand.data + i * sizeof(T), sizeof(T));
      out[i] =
          reduction == NcclReduction::kMin ? std::fmin(out[i], value) : std::fmax(out[i], value);
    }
  }
}

// The tree over what all ranks send, of elements [first, first + count).
std::vector<std::byte> Combined(const std::vector<OperationPtr>& operations, uint64_t first,
                                uint64_t count) {
  const NcclRun run = {count, operations[0]->run.type};
  const uint64_t offset = FakeBytes({first, run.type});
  std::vector<Operand> operands;
  for (const OperationPtr& operation : operations) {
    operands.push_back({operation->send + offset, false});
  }
  std::vector<std::byte> result(FakeBytes(run));
  const NcclReduction reduction = operations[0]->reduction;
  const bool extreme = reduction == NcclReduction::kMin || reduction == NcclReduction::kMax;
  if (extreme && run.type == NcclType::kFloat32) {
    Extreme(reduction, operands, count, reinterpret_cast<float*>(result.data()));
  } else if (extreme && run.type == NcclType::kFloat64) {
    Extreme(reduction, operands, count, reinterpret_cast<double*>(result.data()));
  } else {
    CombineTree({TypeOf(run.type), OpOf(reduction)}, operands, count, {result.data(), false, 1});
  }
  return result;
}

void Put(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// What the collective gives every rank.
void Do(const std::vector<OperationPtr>& operations) {
  const FakeOperation& any = *operations[0];
  const uint64_t bytes = FakeBytes(any.run);
  const auto root = static_cast<size_t>(any.peer);
  for (size_t rank = 0; rank < operations.size(); ++rank) {
    std::byte* const to = operations[rank]->receive;
    if (any.kind == Kind::kAllReduce || (any.kind == Kind::kReduce && rank == root)) {
      Put(to, Combined(operations, 0, any.run.count).data(), bytes);
    } else if (any.kind == Kind::kBroadcast) {
      Put(to, operations[root]->send, bytes);
    } else if (any.kind == Kind::kReduceScatter) {
      Put(to, Combined(operations, rank * any.run.count, any.run.count).data(), bytes);
    } else if (any.kind == Kind::kAllGather) {
      for (size_t from = 0; from < operations.size(); ++from) {
        Put(to + from * bytes, operations[from]->send, bytes);
      }
    }
  }
}

}  // namespace

void FakeNccl::SetFault(int device, Fault fault, int at_group) {
  MutexLock lock(mutex_);
  faults_[device] = {fault, at_group};
}

void FakeNccl::SetVersion(int32_t version) {
  MutexLock lock(mutex_);
  version_ = version;
}

void FakeNccl::LingerInCalls() {
  MutexLock lock(mutex_);
  lingers_ = true;
}

bool FakeNccl::Lingers() const {
  MutexLock lock(mutex_);
  return lingers_;
}

void FakeNccl::EndAll() {
  MutexLock lock(mutex_);
  all_end_ = true;
  changed_.NotifyAll();
}

FakeNccl::Counters FakeNccl::counters() const {
  MutexLock lock(mutex_);
  Counters counters = counters_;
  counters.memories = static_cast<int>(memory_.size());
  return counters;
}

std::vector<std::string> FakeNccl::misuse() const {
  MutexLock lock(mutex_);
  return misuse_;
}

void FakeNccl::MisuseLocked(const std::string& what) { misuse_.push_back(what); }

void FakeNccl::CheckMemoryLocked(const void* begin, uint64_t bytes, const char* where) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const std::byte*>(begin);
  auto found = memory_.upper_bound(first);
  if (found == memory_.begin() || first == nullptr) {
    return MisuseLocked(absl::StrCat(where, " memory that was not allocated"));
  }
  --found;
  if (first + bytes > found->first + found->second) {
    MisuseLocked(absl::StrCat(where, " ", bytes, " bytes, beyond an allocation"));
  }
}

void FakeNccl::PostLocked(FakeContext& context, std::function<int32_t()> task) {
  if (context.posts) MisuseLocked("something was posted before the group is on the stream");
  context.tasks.push_back(std::move(task));
  changed_.NotifyAll();
}

void FakeNccl::RunStream(FakeContext& context) {
  for (;;) {
    std::function<int32_t()> task;
    {
      MutexLock lock(mutex_);
      context.running = false;
      changed_.NotifyAll();
      while (context.tasks.empty() && !context.stopping) changed_.Wait(mutex_);
      if (context.tasks.empty()) return;
      task = std::move(context.tasks.front());
      context.tasks.pop_front();
      if (context.stream_error != 0) continue;
      context.running = true;
    }
    const int32_t code = task();
    MutexLock lock(mutex_);
    if (code != 0) context.stream_error = code;
  }
}

int32_t FakeNccl::RunGroup(FakeContext& context, const FakeGroup& group) {
  MutexLock lock(mutex_);
  if (context.aborted) return 0;
  ++counters_.groups;
  const int number = groups_of_[context.device]++;
  const auto planned = faults_.find(context.device);
  Fault fault = Fault::kNone;
  if (planned != faults_.end() && planned->second.second == number) fault = planned->second.first;
  if (fault == Fault::kCopyFails) context.copy_fails = true;
  if (fault == Fault::kError) context.comm_error = kRemoteError;
  context.abort_hangs = fault == Fault::kAbortHangs;
  if (fault == Fault::kNone || fault == Fault::kCopyFails) {
    for (const OperationPtr& operation : group.operations) EnterLocked(context, operation);
    const auto done = [&group] {
      for (const OperationPtr& operation : group.operations) {
        if (!operation->done) return false;
      }
      return true;
    };
    while (!done() && !context.aborted) changed_.Wait(mutex_);
    return 0;
  }
  ++counters_.hung;
  while (context.abort_hangs ? !all_end_ : !context.aborted) changed_.Wait(mutex_);
  return 0;
}

void FakeNccl::EnterLocked(FakeContext& context, const OperationPtr& operation) {
  FakeComm& comm = *context.comm;
  if (comm.aborted) return;
  if (IsPaired(operation->kind)) {
    const bool sends = operation->kind == Kind::kSend;
    const std::pair<int, int> from_to = sends ? std::make_pair(context.rank, operation->peer)
                                              : std::make_pair(operation->peer, context.rank);
    auto& [sent, wanted] = comm.pairs[from_to];
    (sends ? sent : wanted).push_back(operation);
    return PairLocked(comm, from_to);
  }
  const uint64_t number = context.collectives++;
  auto& meeting = comm.meetings[number];
  meeting[context.rank] = operation;
  if (static_cast<int>(meeting.size()) < comm.size) return;
  std::vector<OperationPtr> operations;
  for (const auto& [rank, one] : meeting) operations.push_back(one);
  comm.meetings.erase(number);
  MeetLocked(comm, operations);
}

void FakeNccl::MeetLocked(FakeComm& comm, const std::vector<OperationPtr>& operations) {
  for (const OperationPtr& operation : operations) {
    if (!SameOperation(*operation, *operations[0])) {
      return MisuseLocked("ranks make different collectives");
    }
  }
  Do(operations);
  for (const OperationPtr& operation : operations) operation->done = true;
  changed_.NotifyAll();
}

void FakeNccl::PairLocked(FakeComm& comm, std::pair<int, int> from_to) {
  auto& [sent, wanted] = comm.pairs[from_to];
  while (!sent.empty() && !wanted.empty()) {
    const OperationPtr send = sent.front();
    const OperationPtr receive = wanted.front();
    sent.pop_front();
    wanted.pop_front();
    if (FakeBytes(send->run) != FakeBytes(receive->run)) {
      return MisuseLocked("a send of another size than its receive");
    }
    Put(receive->receive, send->send, FakeBytes(send->run));
    send->done = true;
    receive->done = true;
  }
  changed_.NotifyAll();
}

}  // namespace cohort
