#include "common/program/bind.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/program.h"

namespace cohort {
namespace {

// Adds a problem for each value of the graph that has no binding, and for each binding whose name
// is no value of the graph.
template <typename Values, typename Map>
void Compare(const char* kind, const Values& values, const Map& bindings,
             std::vector<std::string>& problems) {
  std::set<std::string> names;
  for (const auto& value : values) {
    names.insert(value.name());
    if (bindings.count(value.name()) == 0) {
      problems.push_back(absl::StrCat(kind, " \"", value.name(), "\" has no binding"));
    }
  }
  for (const auto& entry : bindings) {
    if (names.count(entry.first) == 0) {
      problems.push_back(absl::StrCat("the graph has no ", kind, " \"", entry.first, "\""));
    }
  }
}

}  // namespace

proto::InputBinding FromBatch(uint32_t component) {
  proto::InputBinding binding;
  binding.set_batch_component(component);
  return binding;
}

proto::InputBinding FromVariable(const std::string& variable) {
  proto::InputBinding binding;
  binding.set_variable(variable);
  return binding;
}

proto::InputBinding FromArgument(uint32_t position) {
  proto::InputBinding binding;
  binding.set_argument(position);
  return binding;
}

proto::InputBinding FromArgumentOfReplica(uint32_t position) {
  proto::InputBinding binding = FromArgument(position);
  binding.set_of_replica(true);
  return binding;
}

proto::InputBinding FromContext(proto::ContextValue value) {
  proto::InputBinding binding;
  binding.set_context(value);
  return binding;
}

proto::OutputBinding ToFetch() {
  proto::OutputBinding binding;
  binding.set_fetch(true);
  return binding;
}

proto::OutputBinding ToPush(const std::string& variable) {
  proto::OutputBinding binding;
  binding.set_push(variable);
  return binding;
}

proto::OutputBinding ToAssign(const std::string& variable) {
  proto::OutputBinding binding;
  binding.set_assign(variable);
  return binding;
}

absl::StatusOr<proto::Program> BindProgram(const std::string& name, const onnx::ModelProto& model,
                                           const Bindings& bindings) {
  std::vector<std::string> problems;
  Compare("input", model.graph().input(), bindings.inputs, problems);
  Compare("output", model.graph().output(), bindings.outputs, problems);
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program \"", name, "\": ", absl::StrJoin(problems, "; ")));
  }
  proto::Program program;
  program.set_name(name);
  program.set_model(model.SerializeAsString());
  // The bindings are put into the order of the graph's inputs and outputs, because LoadProgram
  // compares them by position.
  for (const auto& input : model.graph().input()) {
    auto* binding = program.add_inputs();
    *binding = bindings.inputs.at(input.name());
    binding->set_input(input.name());
  }
  for (const auto& output : model.graph().output()) {
    auto* binding = program.add_outputs();
    *binding = bindings.outputs.at(output.name());
    binding->set_output(output.name());
  }
  // LoadProgram makes all the checks that workers make, so BindProgram never returns a program that
  // workers would refuse.
  RETURN_IF_ERROR(LoadProgram(program).status());
  return program;
}

}  // namespace cohort
