// The call Assign with an update number, which adds to the values of slices, multiplies them, and
// so on. A repeated call changes nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "proto/ps.pb.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/request_check.h"

namespace cohort {

namespace {

// The type in which two elements are added, subtracted or multiplied. For integers it is the
// unsigned type, because the overflow of signed numbers would be undefined behaviour and the
// numbers come from a peer.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

// Divides two numbers, without undefined behaviour for any two integers.
template <typename T>
T Divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // CheckOperand has refused integer operands of 0, so the first check is only a safeguard. The
    // second avoids the overflow of the smallest integer divided by -1: `a` is negated as an
    // unsigned number.
    if (b == 0) return a;
    if (b == -1) return static_cast<T>(0 - static_cast<Wrapping<T>>(a));
  }
  return a / b;
}

template <typename T, typename Op>
void ForEach(T* value, const T* operand, size_t count, Op op) {
  for (size_t i = 0; i < count; ++i) value[i] = op(value[i], operand[i]);
}

template <typename T>
void Change(proto::ChangeOp op, T* value, const T* operand, size_t count) {
  using U = Wrapping<T>;
  const auto wrapping = [](auto f) {
    return [f](T a, T b) { return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b))); };
  };
  switch (op) {
    case proto::CHANGE_ADD:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a + b; }));
    case proto::CHANGE_SUB:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a - b; }));
    case proto::CHANGE_MUL:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a * b; }));
    case proto::CHANGE_DIV:
      return ForEach(value, operand, count, Divided<T>);
    case proto::CHANGE_MIN:
      return ForEach(value, operand, count, [](T a, T b) { return std::min(a, b); });
    case proto::CHANGE_MAX:
      return ForEach(value, operand, count, [](T a, T b) { return std::max(a, b); });
    default:
      std::memcpy(value, operand, count * sizeof(T));
  }
}

template <typename T>
void ChangeAs(proto::ChangeOp op, std::byte* value, const std::byte* operand, size_t bytes) {
  Change(op, reinterpret_cast<T*>(value), reinterpret_cast<const T*>(operand), bytes / sizeof(T));
}

// Computes value[i] = value[i] op operand[i] for `bytes` bytes of aligned float32, int32 or int64
// elements. Integers wrap around on overflow. No integer is divided by 0, since CheckOperand
// refuses such requests.
void ChangeElements(proto::ChangeOp op, DType dtype, std::byte* value, const std::byte* operand,
                    size_t bytes) {
  if (dtype == DType::kInt32) return ChangeAs<int32_t>(op, value, operand, bytes);
  if (dtype == DType::kInt64) return ChangeAs<int64_t>(op, value, operand, bytes);
  ChangeAs<float>(op, value, operand, bytes);
}

Shape ShapeOf(const proto::TensorMeta& meta) {
  return Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size())));
}

// Returns whether any of the next `count` elements is 0. Moves the cursor past all of these
// elements.
template <typename T>
bool HasZero(PayloadCursor& cursor, size_t count) {
  bool found = false;
  T element{};
  for (size_t i = 0; i < count; ++i) {
    cursor.CopyTo(reinterpret_cast<std::byte*>(&element), sizeof(T));
    found = found || element == 0;
  }
  return found;
}

// Checks that a division has no integer 0 in its operand. Moves the cursor past the operand.
absl::Status CheckOperand(proto::ChangeOp op, const SliceLayout& layout, size_t bytes,
                          PayloadCursor& cursor) {
  bool zero = false;
  if (op == proto::CHANGE_DIV && layout.dtype == DType::kInt32) {
    zero = HasZero<int32_t>(cursor, bytes / sizeof(int32_t));
  } else if (op == proto::CHANGE_DIV && layout.dtype == DType::kInt64) {
    zero = HasZero<int64_t>(cursor, bytes / sizeof(int64_t));
  } else {
    cursor.Skip(bytes);
  }
  if (!zero) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("variable ", layout.variable, ": a whole number is divided by 0"));
}

// Reads the row ids of one slice from the payload, and checks that the slice has these rows.
absl::StatusOr<std::vector<int64_t>> ReadIds(const proto::TensorMeta& meta,
                                             const SliceLayout& layout, PayloadCursor& cursor) {
  std::vector<int64_t> ids(static_cast<size_t>(meta.dims(0)));
  cursor.CopyTo(reinterpret_cast<std::byte*>(ids.data()), ids.size() * sizeof(int64_t));
  for (const int64_t id : ids) {
    if (id >= layout.rows.begin && id - layout.rows.begin < layout.rows.count) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", layout.variable, ": id ", id, " is not in slice ", layout.slice_id,
        ", which has rows ", layout.rows.begin, " to ", layout.rows.begin + layout.rows.count - 1));
  }
  return ids;
}

// The sizes in bytes of one slice's ids and operand in the payload.
struct PartBytes {
  size_t ids = 0;
  size_t operand = 0;
};
// Checks that the ids are int64 numbers and that the operand has the slice's type, and one row for
// each id or the whole slice's shape. Returns the sizes of ids and operand.
absl::StatusOr<PartBytes> CheckPart(const proto::AssignRequest& request, int i,
                                    const VariableSlice& shard) {
  const SliceLayout& layout = shard.layout();
  const proto::TensorMeta& tensor = request.tensors(i);
  PartBytes bytes;
  Shape expected = shard.shape();
  if (request.ids_size() > 0) {
    const proto::TensorMeta& ids = request.ids(i);
    if (ids.dtype() != static_cast<int32_t>(DType::kInt64) || ids.dims_size() != 1 ||
        expected.rank() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable ", layout.variable, ": ids are int64[n], of a variable that has rows"));
    }
    ASSIGN_OR_RETURN(bytes.ids, BytesOf(ids));
    absl::InlinedVector<int64_t, 4> dims(expected.dims().begin(), expected.dims().end());
    dims[0] = ids.dims(0);
    expected = Shape(absl::MakeConstSpan(dims));
  }
  if (tensor.dtype() != static_cast<int32_t>(layout.dtype) || ShapeOf(tensor) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", layout.variable, ", slice ", layout.slice_id, " takes ",
                     DTypeName(layout.dtype), expected.ToString(), ", the message has type ",
                     tensor.dtype(), " ", ShapeOf(tensor).ToString()));
  }
  ASSIGN_OR_RETURN(bytes.operand, BytesOf(tensor));
  return bytes;
}

// Checks the whole request before any slice is changed. Returns the change of each slice, without
// the operand, which stays in the payload.
absl::StatusOr<std::vector<VariableSlice::ValueChange>> CheckChange(
    const Envelope<proto::AssignRequest>& request, absl::Span<VariableSlice* const> shards) {
  const proto::AssignRequest& header = request.header;
  const int count = header.slice_ids_size();
  if (header.tensors_size() != count || (header.ids_size() != 0 && header.ids_size() != count) ||
      !proto::ChangeOp_IsValid(header.op())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AssignRequest has ", count, " slice_ids, ", header.tensors_size(), " tensors and ",
        header.ids_size(), " ids; its op is ", static_cast<int>(header.op())));
  }
  std::vector<PartBytes> parts;
  const size_t came = PayloadBytes(request.payload);
  size_t expected = 0;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const PartBytes bytes, CheckPart(header, i, *shards[static_cast<size_t>(i)]));
    // Each size is compared with the payload's size before it is added, because a sum of sizes from
    // a peer could overflow.
    if (bytes.ids > came || bytes.operand > came) {
      return CheckPayload(std::max(bytes.ids, bytes.operand), came);
    }
    expected += bytes.ids + bytes.operand;
    parts.push_back(bytes);
  }
  // CheckPayload ensures that the payload has all ids and operands, so the cursor can read them.
  RETURN_IF_ERROR(CheckPayload(expected, came));
  PayloadCursor cursor(request.payload);
  std::vector<VariableSlice::ValueChange> changes(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    VariableSlice::ValueChange& change = changes[i];
    change.op = header.op();
    change.update = header.update();
    change.all = header.ids_size() == 0;
    const SliceLayout& layout = shards[i]->layout();
    if (!change.all) {
      ASSIGN_OR_RETURN(change.rows, ReadIds(header.ids(static_cast<int>(i)), layout, cursor));
    }
    RETURN_IF_ERROR(CheckOperand(header.op(), layout, parts[i].operand, cursor));
  }
  return changes;
}

}  // namespace

absl::StatusOr<Envelope<proto::AssignResponse>> PsService::Change(
    const Envelope<proto::AssignRequest>& request, absl::Span<VariableSlice* const> shards) {
  ASSIGN_OR_RETURN(const std::vector<VariableSlice::ValueChange> changes,
                   CheckChange(request, shards));
  const auto gate = [&] { return push_gate_->Window(request.header.epoch()); };
  PayloadCursor cursor(request.payload);
  for (size_t i = 0; i < shards.size(); ++i) {
    cursor.Skip(changes[i].rows.size() * sizeof(int64_t));
    RETURN_IF_ERROR(shards[i]->Change(changes[i], cursor, gate).status());
  }
  return Envelope<proto::AssignResponse>();
}

absl::StatusOr<bool> VariableSlice::Change(const ValueChange& change, PayloadCursor& operand,
                                           AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  // An update number that is not higher than the last one means that the call is a repetition, or
  // that a later change was made first. In both cases the change is skipped.
  if (change.update <= history_.update) {
    operand.Skip(change.all ? num_bytes_ : change.rows.size() * RowBytes());
    return false;
  }
  history_.update = change.update;
  before_.Forget();
  const auto change_bytes = [&](size_t page, size_t begin,
                                size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // InPlace() copies the page if a reader has leased it, so that the reader keeps the old
    // content.
    if (size == 0) return;
    std::byte* const out = value_.page(page).InPlace(copied_bytes_).mutable_raw() + begin;
    for (size_t done = 0; done < size;) {
      const size_t block = std::min(size - done, kBlockBytes);
      ChangeElements(change.op, layout_.dtype, out + done, operand.Next(block), block);
      done += block;
    }
  };
  for (size_t page = 0; change.all && page < value_.num_pages(); ++page) {
    change_bytes(page, 0, value_.elements_of(page) * ElementSize(layout_.dtype));
  }
  // Rows are changed one after another, so a row that the change names several times is changed
  // several times.
  for (const int64_t row : change.rows) {
    const size_t place = PlaceOf(row);
    change_bytes(place / page_rows_, place % page_rows_ * RowBytes(), RowBytes());
  }
  return true;
}

}  // namespace cohort
