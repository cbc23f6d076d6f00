#include "coordinator/model/onnx_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"

namespace cohort {
namespace {

// The alignment that ONNX advises, so that a runtime can map a tensor's bytes into memory.
constexpr size_t kDataAlignment = 4096;
// How many bytes of a value are written to the file at a time.
constexpr size_t kWriteBytes = size_t{64} << 20;

constexpr uint32_t kLengthDelimited = 2;  // protobuf's wire type of messages and bytes

// Appends a number in protobuf's encoding: 7 bits a byte, the lowest first.
void AppendVarint(uint64_t value, std::string& out) {
  constexpr uint64_t kLow = 0x7f;
  for (; value > kLow; value >>= 7) out.push_back(static_cast<char>((value & kLow) | (kLow + 1)));
  out.push_back(static_cast<char>(value));
}

// Returns the tag and length that protobuf puts before the content of a message or bytes field.
std::string FieldHead(int field, size_t bytes) {
  std::string head;
  AppendVarint(static_cast<uint64_t>(field) << 3 | kLengthDelimited, head);
  AppendVarint(bytes, head);
  return head;
}

// Returns an initializer without its bytes.
onnx::TensorProto MetaOf(const ExportedVariable& variable) {
  onnx::TensorProto tensor;
  tensor.set_name(variable.initializer);
  tensor.set_data_type(static_cast<int32_t>(variable.dtype));
  for (const int64_t dim : variable.shape.dims()) tensor.add_dims(dim);
  return tensor;
}

// Reads a variable and checks that the value is the one that the program reads.
absl::StatusOr<Tensor> ReadChecked(const ExportedVariable& variable, ReadVariable read) {
  ASSIGN_OR_RETURN(Tensor value, read(variable.variable));
  if (value.dtype() == variable.dtype && value.shape() == variable.shape) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "the value of variable '", variable.variable, "' is ", value.TypeString(),
      ", but the program reads ", DTypeName(variable.dtype), variable.shape.ToString()));
}

absl::Status AppendBytes(const Tensor& value, TemporaryFile& file) {
  const char* const bytes = reinterpret_cast<const char*>(value.raw());
  for (size_t begin = 0; begin < value.num_bytes(); begin += kWriteBytes) {
    const size_t count = std::min(kWriteBytes, value.num_bytes() - begin);
    RETURN_IF_ERROR(file.Append(absl::string_view(bytes + begin, count)));
  }
  return absl::OkStatus();
}

// A model as one protobuf message, in parts whose sizes are known before the values are read. The
// fields of a message may come in any order: first the model without its graph, then the graph
// without the variables, then the variables.
struct InlineModel {
  std::string model;
  std::string graph;
  // The bytes before each variable's value: the tag and length of the initializer field, then the
  // tensor's name, type and shape, then the tag and length of the tensor's bytes.
  std::vector<std::string> heads;
  size_t graph_bytes = 0;
};

// Computes all parts and sizes from the types and shapes alone.
InlineModel LayOut(const OnnxExport& exported) {
  InlineModel laid;
  onnx::ModelProto rest = exported.model;
  laid.graph = rest.graph().SerializeAsString();
  rest.clear_graph();
  laid.model = rest.SerializeAsString();
  laid.graph_bytes = laid.graph.size();
  for (const ExportedVariable& variable : exported.variables) {
    const std::string meta =
        absl::StrCat(MetaOf(variable).SerializeAsString(),
                     FieldHead(onnx::TensorProto::kRawDataFieldNumber, variable.bytes()));
    // The length of the initializer field covers the tensor's name, type, shape and bytes.
    const std::string head = absl::StrCat(
        FieldHead(onnx::GraphProto::kInitializerFieldNumber, meta.size() + variable.bytes()), meta);
    laid.graph_bytes += head.size() + variable.bytes();
    laid.heads.push_back(head);
  }
  return laid;
}

// Writes the model into one file, with one value in memory at a time.
absl::Status WriteInline(FileSystem& files, const std::string& path, const OnnxExport& exported,
                         const InlineModel& laid, ReadVariable read) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  // After Commit, there is nothing left to remove.
  const absl::Cleanup discard = [&file] { file->Discard(); };
  RETURN_IF_ERROR(file->Append(laid.model));
  RETURN_IF_ERROR(file->Append(FieldHead(onnx::ModelProto::kGraphFieldNumber, laid.graph_bytes)));
  RETURN_IF_ERROR(file->Append(laid.graph));
  for (size_t i = 0; i < exported.variables.size(); ++i) {
    ASSIGN_OR_RETURN(const Tensor value, ReadChecked(exported.variables[i], read));
    RETURN_IF_ERROR(file->Append(laid.heads[i]));
    RETURN_IF_ERROR(AppendBytes(value, *file));
  }
  RETURN_IF_ERROR(file->Seal());
  return file->Commit();
}

// Returns an initializer whose bytes are in the data file, at `offset`.
onnx::TensorProto ExternalTensor(const ExportedVariable& variable, const std::string& location,
                                 size_t offset) {
  onnx::TensorProto tensor = MetaOf(variable);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, std::string value) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", location);
  add("offset", absl::StrCat(offset));
  add("length", absl::StrCat(variable.bytes()));
  return tensor;
}

// Writes the values into a data file, and the model without values into its own file.
absl::Status WriteExternal(FileSystem& files, const std::string& path, const OnnxExport& exported,
                           ReadVariable read) {
  const std::string data_path = absl::StrCat(path, ".data");
  RemoveTemporaries(files, data_path);
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> data,
                   TemporaryFile::Create(files, data_path));
  // After Commit, there is nothing left to remove.
  const absl::Cleanup discard_data = [&data] { data->Discard(); };
  onnx::ModelProto model = exported.model;
  size_t offset = 0;
  for (const ExportedVariable& variable : exported.variables) {
    const size_t begin = (offset + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    // Zeros fill the gap before an aligned value.
    RETURN_IF_ERROR(data->Append(std::string(begin - offset, '\0')));
    *model.mutable_graph()->add_initializer() =
        ExternalTensor(variable, BaseName(data_path), begin);
    ASSIGN_OR_RETURN(const Tensor value, ReadChecked(variable, read));
    RETURN_IF_ERROR(AppendBytes(value, *data));
    offset = begin + variable.bytes();
  }
  RETURN_IF_ERROR(data->Seal());
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  const absl::Cleanup discard = [&file] { file->Discard(); };
  RETURN_IF_ERROR(file->Append(model.SerializeAsString()));
  RETURN_IF_ERROR(file->Seal());
  // The old model is removed first, because it must never refer to the new data.
  RETURN_IF_ERROR(files.Remove(path));
  RETURN_IF_ERROR(data->Commit());
  return file->Commit();
}

}  // namespace

absl::Status WriteOnnx(FileSystem& files, const std::string& path, const OnnxExport& exported,
                       ReadVariable read, size_t file_bytes_max) {
  RemoveTemporaries(files, path);
  // The size of the whole model decides between one file and two, before any value is read.
  const InlineModel laid = LayOut(exported);
  const std::string graph_head = FieldHead(onnx::ModelProto::kGraphFieldNumber, laid.graph_bytes);
  const size_t bytes = laid.model.size() + graph_head.size() + laid.graph_bytes;
  return bytes <= file_bytes_max ? WriteInline(files, path, exported, laid, read)
                                 : WriteExternal(files, path, exported, read);
}

}  // namespace cohort
