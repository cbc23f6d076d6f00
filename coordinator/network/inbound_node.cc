#include "coordinator/network/inbound_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kKerasTensor[] = "__keras_tensor__";
constexpr char kConstant[] = "_CONSTANT_VALUE";
constexpr size_t kTensorsMax = 1000;  // upper bound of the tensors of one call

bool IsTensorList(const json& value) {
  return value.is_array() && value.size() == 3 && value[0].is_string() &&
         value[1].is_number_integer() && value[2].is_number_integer();
}

// Reads the arguments of one node. Lives for one call of ReadInboundNode. Thread-compatible.
class NodeReader {
 public:
  NodeReader(const std::string& path, JsonErrors& errors) : path_(path), errors_(errors) {}

  // Reads a node of Keras 2: a tensor, or a list of tensors.
  std::optional<InboundNode> ReadList(const json& value) {
    const bool is_flat = !value.empty() && value[0].is_string();
    const json entries = is_flat ? json::array({value}) : value;
    json first = json::array();
    json kwargs = json::object();
    for (size_t i = 0; i < entries.size(); ++i) {
      const json& entry = entries[i];
      const std::string path = is_flat ? path_ : JoinKeys(path_, absl::StrCat(i));
      if (entry.is_array() && entry.size() >= 3 && entry[0] == kConstant) {
        first.push_back(entry[2]);
      } else {
        first.push_back(Tensor(entry, "", path));
      }
      if (entry.is_array() && entry.size() > 3 && i == 0) kwargs = entry[3];
    }
    if (first.empty()) Fail(path_, value);
    const json arg = first.size() == 1 ? first[0] : first;
    return Finish(json::array({arg}), kwargs,
                  is_flat ? JoinKeys(path_, "3") : JoinKeys(path_, "0.3"),
                  /*takes_lists=*/true);
  }

  // Reads a node of Keras 3.
  std::optional<InboundNode> ReadObject(const json& value) {
    ObjectReader reader({path_, errors_, &value});
    const json* const args = reader.Require("args");
    const json* const kwargs = reader.Find("kwargs");
    reader.Finish();
    if (args == nullptr) return std::nullopt;
    const std::string args_path = JoinKeys(path_, "args");
    if (!args->is_array()) return Fail(args_path, *args);
    json forms = json::array();
    for (size_t i = 0; i < args->size(); ++i) {
      forms.push_back(Argument((*args)[i], i == 0 ? "" : absl::StrCat("#", i),
                               JoinKeys(args_path, absl::StrCat(i)), /*takes_lists=*/false));
    }
    node_.is_object = true;
    return Finish(forms, kwargs == nullptr ? json::object() : *kwargs, JoinKeys(path_, "kwargs"),
                  /*takes_lists=*/false);
  }

 private:
  std::nullopt_t Fail(const std::string& path, const json& value) {
    errors_.Add(path,
                absl::StrCat("is ", JsonExcerpt(value), "; it must say what the call is given"));
    failed_ = true;
    return std::nullopt;
  }

  // Adds an input of the call. Returns the JSON that stands for it in `form`, {"tensor": i}.
  json Tensor(const json& name, const std::string& argument, const std::string& path) {
    std::optional<TensorName> tensor = ReadTensorName(name, path, errors_);
    if (!tensor || node_.tensors.size() == kTensorsMax) {
      failed_ = true;
      return nullptr;
    }
    node_.tensors.push_back(*std::move(tensor));
    node_.arguments.push_back(argument);
    return {{"tensor", node_.tensors.size() - 1}};
  }

  // Returns the JSON of an argument in `form`. If `takes_lists` is set, [layer, node, tensor] is a
  // tensor.
  json Argument(const json& value, const std::string& argument, const std::string& path,
                bool takes_lists) {
    if (takes_lists && IsTensorList(value)) return Tensor(value, argument, path);
    if (value.is_object() && value.contains("class_name") && value["class_name"] == kKerasTensor) {
      return KerasTensor(value, argument, path);
    }
    if (!value.is_structured()) return value;
    json form = value;
    size_t i = 0;
    for (auto item = form.begin(); item != form.end(); ++item, ++i) {
      const std::string key = value.is_object() ? item.key() : absl::StrCat(i);
      // Each input of a list may have a mask of its own.
      const std::string name = argument == "mask" ? absl::StrCat("mask.", i) : argument;
      *item = Argument(json(*item), name, JoinKeys(path, key), takes_lists);
    }
    return form;
  }

  json KerasTensor(const json& value, const std::string& argument, const std::string& path) {
    const ClassForm form = ReadClassForm({path, errors_, &value}, "");
    ObjectReader config = form.Config("");
    // The shape and type of a tensor follow from the layers.
    config.Ignore("shape");
    config.Ignore("dtype");
    config.Ignore("name");
    config.Ignore("sparse");
    config.Ignore("ragged");
    const json* const history = config.Require("keras_history");
    config.Finish();
    if (history == nullptr) {
      failed_ = true;
      return nullptr;
    }
    return Tensor(*history, argument, JoinKeys(form.config_path, "keras_history"));
  }

  std::optional<InboundNode> Finish(const json& args, const json& kwargs, const std::string& path,
                                    bool takes_lists) {
    json named = json::object();
    if (!kwargs.is_object() && !kwargs.is_null()) return Fail(path, kwargs);
    for (const auto& item : kwargs.items()) {
      const json& value = item.value();
      const std::string value_path = JoinKeys(path, item.key());
      if (item.key() == "training") {
        if (value.is_boolean()) node_.training = value.get<bool>();
        if (!value.is_boolean() && !value.is_null()) {
          errors_.Add(value_path,
                      absl::StrCat("is ", JsonExcerpt(value), "; it must be true or false"));
        }
        continue;
      }
      // null and false are left out, because a call without the argument does the same.
      if (value.is_null() || value == false || item.key() == "name") continue;
      const size_t before = node_.tensors.size();
      named[item.key()] = Argument(value, item.key(), value_path, takes_lists);
      if (value == true) {
        node_.flags.push_back(item.key());
      } else if (node_.tensors.size() == before) {
        node_.constants.push_back(item.key());
      }
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (i > 0 && !args[i].is_structured() && !args[i].is_null()) {
        node_.constants.push_back(absl::StrCat("number ", i));
      }
    }
    node_.is_plain = args.size() == 1 && named.empty() &&
                     std::all_of(node_.arguments.begin(), node_.arguments.end(),
                                 [](const std::string& argument) { return argument.empty(); });
    node_.form = json({{"args", args}, {"kwargs", named}})
                     .dump(-1, ' ', false, json::error_handler_t::replace);
    if (failed_) return std::nullopt;
    return std::move(node_);
  }

  const std::string path_;
  JsonErrors& errors_;
  InboundNode node_;
  bool failed_ = false;
};

}  // namespace

std::optional<TensorName> ReadTensorName(const json& value, const std::string& path,
                                         JsonErrors& errors) {
  const bool valid = value.is_array() && value.size() >= 3 && value[0].is_string() &&
                     value[1].is_number_integer() && value[1] >= 0 &&
                     value[2].is_number_integer() && value[2] >= 0;
  if (valid) {
    return TensorName{value[0].get<std::string>(), value[1].get<int64_t>(), value[2].get<int64_t>(),
                      path};
  }
  errors.Add(path, absl::StrCat("is ", JsonExcerpt(value),
                                "; it must be [layer's name, number of its use from 0, number of "
                                "the use's output from 0]"));
  return std::nullopt;
}

std::optional<InboundNode> ReadInboundNode(const json& value, const std::string& path,
                                           JsonErrors& errors) {
  NodeReader reader(path, errors);
  return value.is_array() ? reader.ReadList(value) : reader.ReadObject(value);
}

}  // namespace cohort
