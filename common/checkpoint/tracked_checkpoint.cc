#include "common/checkpoint/tracked_checkpoint.h"

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/crc32c.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/index_bytes.h"
#include "common/checkpoint/object_graph.h"
#include "common/checkpoint/string_tensor.h"
#include "proto/object_graph.pb.h"

namespace cohort {

namespace {

constexpr char kModel[] = "model";
constexpr char kOptimizer[] = "optimizer";
constexpr char kSaveCounter[] = "save_counter";
constexpr size_t kAppendBytes = 1 << 20;  // checksummed and then written at a time

// Returns the key of a variable. TensorFlow refuses keys without this ending.
std::string KeyOf(const std::string& name) {
  return absl::StrCat(name, "/.ATTRIBUTES/VARIABLE_VALUE");
}

// Makes the object graph of a model and its optimizer. Thread-compatible.
class GraphMaker {
 public:
  GraphMaker() {
    graph_.add_nodes();  // the root
    ChildOf(kRoot, kModel);
  }

  // Adds a variable. Errors: INVALID_ARGUMENT if it has no path, or one that has an empty part or
  // leads to another object.
  absl::Status Add(const TrackedVariable& variable) {
    if (variable.paths.empty()) return BadPath(variable, "");
    const int node = graph_.nodes_size();
    graph_.add_nodes();
    values_.insert(node);
    proto::TrackedObject::SavedValue& value = *graph_.mutable_nodes(node)->add_attributes();
    value.set_name("VARIABLE_VALUE");
    value.set_full_name(variable.full_name.empty() ? variable.name : variable.full_name);
    value.set_checkpoint_key(KeyOf(variable.name));
    for (const std::string& path : variable.paths) {
      if (!Lead(path, node)) return BadPath(variable, path);
    }
    return absl::OkStatus();
  }

  absl::Status Finish(std::string& bytes) {
    const int model = ChildOf(kRoot, kModel);
    const auto optimizer = children_.find({kRoot, kOptimizer});
    for (const auto& child : graph_.nodes(model).children()) {
      if (!children_.try_emplace({kRoot, child.local_name()}, child.node_id()).second) {
        return BadPath({child.local_name(), {}}, absl::StrCat(kModel, "/", child.local_name()));
      }
      AddEdge(kRoot, child.local_name(), child.node_id());
    }
    if (optimizer != children_.end()) AddEdge(model, kOptimizer, optimizer->second);
    RETURN_IF_ERROR(Add({kSaveCounter, {kSaveCounter}}));
    bytes = graph_.SerializeAsString();
    return absl::OkStatus();
  }

 private:
  static constexpr int kRoot = 0;

  static absl::Status BadPath(const TrackedVariable& variable, const std::string& path) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", Excerpt(variable.name), "': '",
                                                   Excerpt(path),
                                                   "' is empty or is the path of another object"));
  }

  // Lets a path lead to a node. Returns false if it has an empty part, goes through a value or
  // leads to another object.
  bool Lead(const std::string& path, int node) {
    const std::vector<std::string> parts = absl::StrSplit(path, '/');
    int at = kRoot;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].empty() || values_.contains(at)) return false;
      if (i + 1 < parts.size()) {
        at = ChildOf(at, parts[i]);
      } else {
        if (!children_.try_emplace({at, parts[i]}, node).second) return false;
        AddEdge(at, parts[i], node);
      }
    }
    return true;
  }

  int ChildOf(int node, const std::string& part) {
    const auto [found, is_new] = children_.try_emplace({node, part}, graph_.nodes_size());
    if (is_new) {
      graph_.add_nodes();
      AddEdge(node, part, found->second);
    }
    return found->second;
  }

  void AddEdge(int from, const std::string& name, int to) {
    proto::TrackedObject::Child& child = *graph_.mutable_nodes(from)->add_children();
    child.set_node_id(to);
    child.set_local_name(name);
  }

  proto::TrackedObjectGraph graph_;
  std::map<std::pair<int, std::string>, int> children_;  // by parent and name
  std::set<int> values_;                                 // nodes with a value
};

// Writes the one data shard of a checkpoint and collects the entries of the index.
// Thread-compatible.
class ShardWriter {
 public:
  explicit ShardWriter(TemporaryFile& file) : file_(file) {}

  absl::Status Add(const std::string& key, const Tensor& value) {
    absl::string_view rest(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
    proto::BundleEntryProto& entry = Begin(key, TensorFlowDType(value.dtype()), rest.size());
    for (const int64_t dim : value.shape().dims()) entry.mutable_shape()->add_dim()->set_size(dim);
    uint32_t crc = 0;
    while (!rest.empty()) {
      const absl::string_view piece = rest.substr(0, kAppendBytes);
      crc = ExtendCrc32c(crc, piece);
      RETURN_IF_ERROR(file_.Append(piece));
      rest.remove_prefix(piece.size());
    }
    entry.set_crc32c(MaskCrc32c(crc));
    return absl::OkStatus();
  }

  // Gives a value that was added a second key.
  void AddName(const std::string& name, const std::string& key) { entries_[name] = entries_[key]; }

  absl::Status AddString(const std::string& key, const std::string& text) {
    const EncodedString encoded = EncodeStringTensor(text);
    Begin(key, kTensorFlowString, encoded.bytes.size()).set_crc32c(MaskCrc32c(encoded.crc32c));
    return file_.Append(encoded.bytes);
  }

  const IndexEntries& entries() const { return entries_; }

 private:
  proto::BundleEntryProto& Begin(const std::string& key, int32_t type, size_t bytes) {
    proto::BundleEntryProto& entry = entries_[key];
    entry.set_dtype(type);
    entry.mutable_shape();  // a scalar has a shape, too
    entry.set_offset(static_cast<int64_t>(offset_));
    entry.set_size(static_cast<int64_t>(bytes));
    offset_ += bytes;
    return entry;
  }

  TemporaryFile& file_;
  IndexEntries entries_;
  uint64_t offset_ = 0;
};

}  // namespace

absl::Status WriteTrackedCheckpoint(
    FileSystem& files, const std::string& prefix, absl::Span<const TrackedVariable> variables,
    absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& name)> read) {
  GraphMaker graph;
  std::set<std::string> names = {kSaveCounter};
  for (const TrackedVariable& variable : variables) {
    RETURN_IF_ERROR(CheckTensorName(variable.name));
    if (!names.insert(variable.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", Excerpt(variable.name), "' is given twice"));
    }
    RETURN_IF_ERROR(graph.Add(variable));
  }
  std::string graph_bytes;
  RETURN_IF_ERROR(graph.Finish(graph_bytes));
  const std::string path = DataShardPath(prefix, 0, 1);
  RemoveTemporaries(files, path);
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  // After Commit, there is nothing left to remove.
  const absl::Cleanup discard = [&file] { file->Discard(); };
  ShardWriter shard(*file);
  for (const TrackedVariable& variable : variables) {
    ASSIGN_OR_RETURN(const Tensor value, read(variable.name));
    RETURN_IF_ERROR(shard.Add(KeyOf(variable.name), value));
    shard.AddName(variable.name, KeyOf(variable.name));
  }
  RETURN_IF_ERROR(shard.Add(KeyOf(kSaveCounter), Tensor::Scalar<int64_t>(1)));
  RETURN_IF_ERROR(shard.AddString(kObjectGraphKey, graph_bytes));
  RETURN_IF_ERROR(file->Seal());
  RETURN_IF_ERROR(files.Remove(IndexPath(prefix)));
  RETURN_IF_ERROR(file->Commit());
  RemoveTemporaries(files, IndexPath(prefix));
  return WriteFileAtomically(files, IndexPath(prefix), IndexBytes(shard.entries(), 1));
}

}  // namespace cohort
