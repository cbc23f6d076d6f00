// Functions of bytes: DecodeImage of JPEG and PNG, and DecodeRaw of numbers.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/images/decode_image.h"
#include "common/images/resize_image.h"
#include "common/tensor/dtype.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

constexpr int64_t kSideMax = int64_t{1} << 15;
constexpr int64_t kRawValuesMax = int64_t{1} << 28;

absl::StatusOr<ResizeMethod> MethodFromName(const std::string& name) {
  if (name.empty() || name == "bilinear") return ResizeMethod::kBilinear;
  if (name == "nearest") return ResizeMethod::kNearest;
  if (name == "bicubic") return ResizeMethod::kBicubic;
  return absl::InvalidArgumentError("interpolation must be bilinear, nearest or bicubic");
}

// Appends the pixels of an image uint8 or float32.
void AppendPixels(const Tensor& image, std::vector<float>& out) {
  if (image.dtype() == DType::kUint8) {
    const auto pixels = image.span<uint8_t>();
    out.insert(out.end(), pixels.begin(), pixels.end());
  } else {
    const auto pixels = image.span<float>();
    out.insert(out.end(), pixels.begin(), pixels.end());
  }
}

// Appends the numbers of type T that `bytes` hold, whose size fits.
template <typename T, typename Out>
void AppendRaw(absl::string_view bytes, bool big_endian, std::vector<Out>& out) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    char number[sizeof(T)];
    std::memcpy(number, bytes.data() + at, sizeof(T));
    if (big_endian) std::reverse(number, number + sizeof(T));
    T value;
    std::memcpy(&value, number, sizeof(T));
    out.push_back(static_cast<Out>(value));
  }
}

proto::ColumnType RawType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return proto::COLUMN_FLOAT32;
    case DType::kFloat64:
      return proto::COLUMN_FLOAT64;
    case DType::kInt64:
      return proto::COLUMN_INT64;
    default:
      return proto::COLUMN_INT32;
  }
}

void AppendRawOf(DType dtype, absl::string_view bytes, bool big_endian, ColumnValues& out) {
  switch (dtype) {
    case DType::kFloat32:
      return AppendRaw<float>(bytes, big_endian, out.floats);
    case DType::kFloat64:
      return AppendRaw<double>(bytes, big_endian, out.doubles);
    case DType::kInt64:
      return AppendRaw<int64_t>(bytes, big_endian, out.ints);
    case DType::kInt32:
      return AppendRaw<int32_t>(bytes, big_endian, out.ints);
    case DType::kInt8:
      return AppendRaw<int8_t>(bytes, big_endian, out.ints);
    default:
      return AppendRaw<uint8_t>(bytes, big_endian, out.ints);
  }
}

// Returns the shape that each text becomes, where each record has one text.
absl::StatusOr<Shape> ShapeOfResult(const MapCall& call, absl::Span<const int64_t> dims) {
  if (!IsString(call.input) || call.input.varies || call.input.shape.num_elements() != 1) {
    return WrongType(call.input, "one text of each record");
  }
  int64_t values = 1;
  for (const int64_t dim : dims) {
    if (dim < 1 || __builtin_mul_overflow(values, dim, &values) || values > kRawValuesMax) {
      return absl::InvalidArgumentError(absl::StrCat("its extent ", dim, " cannot be"));
    }
  }
  return Shape(dims);
}

}  // namespace

Made MakeDecodeImage(MapCall call, Specs& columns) {
  const proto::DecodeImage& given = call.map.decode_image();
  if (given.height() < 1 || given.width() < 1 || given.height() > kSideMax ||
      given.width() > kSideMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("height and width must be 1 to ", kSideMax, ", to which images are resized"));
  }
  if (given.channels() != 1 && given.channels() != 3 && given.channels() != 4) {
    return absl::InvalidArgumentError("channels must be 1, 3 or 4");
  }
  ASSIGN_OR_RETURN(const ResizeMethod method, MethodFromName(given.interpolation()));
  ASSIGN_OR_RETURN(call.output.shape,
                   ShapeOfResult(call, {given.height(), given.width(), given.channels()}));
  call.output.type = proto::COLUMN_FLOAT32;
  const DecodeOptions options{static_cast<int>(given.channels()), given.accurate_dct()};
  const int64_t height = given.height();
  const int64_t width = given.width();
  return MakeEach(
      std::move(call), columns,
      [=](const ColumnValues& in, ColumnValues& out, StringArena&, size_t* at) -> absl::Status {
        for (; *at < in.strings.size(); ++*at) {
          ASSIGN_OR_RETURN(Tensor image, DecodeImage(in.strings[*at], options));
          if (image.shape().dim(0) != height || image.shape().dim(1) != width) {
            ASSIGN_OR_RETURN(image, ResizeImage(image, height, width, method));
          }
          AppendPixels(image, out.floats);
        }
        return absl::OkStatus();
      });
}

Made MakeDecodeRaw(MapCall call, Specs& columns) {
  const proto::DecodeRaw& given = call.map.decode_raw();
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(given.dtype()));
  constexpr DType kTypes[] = {DType::kUint8, DType::kInt8,    DType::kInt32,
                              DType::kInt64, DType::kFloat32, DType::kFloat64};
  if (std::find(std::begin(kTypes), std::end(kTypes), dtype) == std::end(kTypes)) {
    return absl::InvalidArgumentError(
        "dtype must be uint8, int8, int32, int64, float32 or float64");
  }
  ASSIGN_OR_RETURN(
      call.output.shape,
      ShapeOfResult(
          call, absl::MakeConstSpan(given.dims().data(), static_cast<size_t>(given.dims_size()))));
  call.output.type = RawType(dtype);
  const auto bytes = static_cast<size_t>(call.output.shape.num_elements()) * ElementSize(dtype);
  const bool big_endian = given.big_endian();
  return MakeEach(
      std::move(call), columns,
      [=](const ColumnValues& in, ColumnValues& out, StringArena&, size_t* at) -> absl::Status {
        for (; *at < in.strings.size(); ++*at) {
          if (in.strings[*at].size() != bytes) {
            return absl::InvalidArgumentError(absl::StrCat(
                "it has ", in.strings[*at].size(), " bytes; its type and shape need ", bytes));
          }
          AppendRawOf(dtype, in.strings[*at], big_endian, out);
        }
        return absl::OkStatus();
      });
}

}  // namespace cohort
