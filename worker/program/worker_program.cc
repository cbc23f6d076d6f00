#include "worker/program/worker_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/product_precision.h"
#include "common/program/program.h"
#include "common/runtime/kernels/cpu/gemm.h"
#include "worker/program/make_device_sums.h"

namespace cohort {

namespace {

// The largest index of an argument or a batch component that a program may be bound to, plus 1.
constexpr size_t kPositionMax = 65536;

using Layouts = std::map<std::string, const proto::VariableLayout*>;

absl::StatusOr<const proto::VariableLayout*> FindLayout(const Layouts& layouts,
                                                        const std::string& name) {
  const auto found = layouts.find(name);
  if (found != layouts.end()) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat("the program is bound to variable '", name, "', which has no layout"));
}

// Returns the rule by which the replicas' values of one output are joined. `joins` is false if the
// program has one replica in all. Errors: INVALID_ARGUMENT for a variable without a layout, or one
// that replicas change without an aggregation.
absl::StatusOr<JoinRule> JoinRuleOf(const proto::OutputBinding& binding, const Layouts& layouts,
                                    bool joins) {
  if (!binding.has_push() && !binding.has_assign()) {
    if (!joins) return JoinRule::kEach;
    switch (binding.of_replicas()) {
      case proto::SUM_OF_REPLICAS:
        return JoinRule::kSum;
      case proto::ROWS_OF_REPLICAS:
        return JoinRule::kRows;
      default:
        return JoinRule::kEach;
    }
  }
  const auto update = binding.has_push() ? ReplicaUpdate::kPush : ReplicaUpdate::kAssign;
  const std::string& name = binding.has_push() ? binding.push() : binding.assign();
  ASSIGN_OR_RETURN(const proto::VariableLayout* layout, FindLayout(layouts, name));
  // A variable with one row per replica needs no aggregation: every replica's value is kept in its
  // own row.
  if (layout->replicas() > 0) return JoinRule::kReplicaRows;
  if (!joins) return JoinRule::kEach;
  const ReplicaContext replicas{layout->name(), layout->rule(), layout->aggregation(), update};
  RETURN_IF_ERROR(replicas.Check());
  if (replicas.Trains()) return JoinRule::kOfExamples;
  switch (replicas.How()) {
    case proto::AGGREGATION_SUM:
      return JoinRule::kSum;
    case proto::AGGREGATION_MEAN:
      return JoinRule::kMean;
    default:
      return JoinRule::kFirst;
  }
}

// Checks that the type which the graph declares for `value` is that of its variable: element type,
// rank and every extent. An undeclared type or extent, and a symbolic extent, fit anything.
absl::Status CheckDeclared(const onnx::ValueInfoProto& value, const VariableType& variable) {
  const onnx::TypeProto::Tensor& type = value.type().tensor_type();
  const Shape shape = variable.ValueShape();
  // Element type 0 means that the graph does not declare the type.
  bool same = type.elem_type() == 0 || type.elem_type() == static_cast<int>(variable.dtype);
  if (type.has_shape()) {
    same = same && type.shape().dim_size() == shape.rank();
    for (int axis = 0; same && axis < type.shape().dim_size(); ++axis) {
      const auto& dim = type.shape().dim(axis);
      same = !dim.has_dim_value() || dim.dim_value() == shape.dim(axis);
    }
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("value '", value.name(), "' of the graph, ",
                                                 type.ShortDebugString(), ", is bound to variable ",
                                                 variable.ToString()));
}

// Collects the variables that a program pulls (or pushes, or assigns to) in the order in which the
// graph names them, and plans their transfer. Thread-compatible.
class Binder {
 public:
  // Makes an empty collection. The plan that Finish() makes moves the variables named in `by_rows`
  // row by row, the others whole.
  Binder(const Layouts& layouts, const std::set<std::string>& by_rows, size_t call_bytes_max)
      : layouts_(layouts), by_rows_(by_rows), call_bytes_max_(call_bytes_max) {}

  absl::StatusOr<size_t> Add(const std::string& variable, const onnx::ValueInfoProto& value) {
    ASSIGN_OR_RETURN(const proto::VariableLayout* layout, FindLayout(layouts_, variable));
    chosen_.push_back(layout);
    values_.push_back(&value);
    return chosen_.size() - 1;
  }
  // Returns the number of the variable in the plan. A variable that is new is added.
  absl::StatusOr<size_t> FindOrAdd(const std::string& variable, const onnx::ValueInfoProto& value) {
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i]->name() == variable) return i;
    }
    return Add(variable, value);
  }

  absl::StatusOr<TransferPlan> Finish() const {
    // `values_` has one value of the graph for each variable of the plan, in the plan's order.
    ASSIGN_OR_RETURN(TransferPlan plan, MakeTransferPlan(chosen_, by_rows_, call_bytes_max_));
    for (size_t i = 0; i < values_.size(); ++i) {
      RETURN_IF_ERROR(CheckDeclared(*values_[i], plan.variables[i]));
    }
    return plan;
  }

 private:
  const Layouts& layouts_;
  const std::set<std::string>& by_rows_;
  const size_t call_bytes_max_;
  std::vector<const proto::VariableLayout*> chosen_;
  std::vector<const onnx::ValueInfoProto*> values_;
};

// Returns the names of the variables of which the program reads only the rows that a batch names.
std::set<std::string> TablesOf(const proto::Program& program) {
  std::set<std::string> tables;
  for (const proto::InputBinding& binding : program.inputs()) {
    if (!binding.rows_of().empty()) tables.insert(binding.rows_of());
  }
  return tables;
}

// Binds the lookups of table rows: each input that has row numbers gets positions instead. Called
// when the pull plan is finished. Errors: INVALID_ARGUMENT for a table that is not an input of the
// graph or is two inputs, and for row numbers that do not come from the batch.
absl::Status BindLookups(const proto::Program& program, WorkerProgram& bound) {
  std::map<std::string, size_t> variables;
  for (size_t i = 0; i < bound.pulls.variables.size(); ++i) {
    const VariableType& type = bound.pulls.variables[i];
    // A variable that is read by rows can be bound to one input only, because the rows of a batch
    // are looked up once.
    if (!variables.emplace(type.name, i).second && type.by_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", type.name, "' is read by rows and has two inputs"));
    }
  }
  std::map<size_t, TableLookup> lookups;
  for (int i = 0; i < program.inputs_size(); ++i) {
    const proto::InputBinding& binding = program.inputs(i);
    if (binding.rows_of().empty()) continue;
    const auto variable = variables.find(binding.rows_of());
    if (variable == variables.end() || !binding.has_batch_component()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", binding.input(), "' is bound to rows of '", binding.rows_of(),
                       "'; it must be a component of the batch, and the variable an input"));
    }
    TableLookup& lookup = lookups[variable->second];
    lookup.variable = variable->second;
    // Several components of the batch may name rows of one table. These rows are pulled once for
    // all components.
    InputSource& source = bound.inputs[static_cast<size_t>(i)];
    lookup.columns.push_back(
        {source.index, bound.num_positions, binding.input(), binding.negative_is_none()});
    // The graph's input does not get row numbers, but the positions of these rows in the pulled
    // tensor.
    source = {InputSource::Kind::kPositions, bound.num_positions++, proto::CONTEXT_UNKNOWN};
  }
  for (auto& entry : lookups) bound.lookups.push_back(std::move(entry.second));
  return absl::OkStatus();
}

// Binds the outputs that assign one row per replica to a variable: the variable is also pulled, so
// that the rows of replicas that do not run keep their values.
absl::Status BindRowsBefore(const proto::Program& program, const onnx::GraphProto& graph,
                            const Layouts& layouts, Binder& pulls, WorkerProgram& bound) {
  bound.rows_before.assign(static_cast<size_t>(program.outputs_size()), -1);
  for (int i = 0; i < program.outputs_size(); ++i) {
    const proto::OutputBinding& binding = program.outputs(i);
    if (!binding.has_assign()) continue;
    ASSIGN_OR_RETURN(const proto::VariableLayout* layout, FindLayout(layouts, binding.assign()));
    if (layout->replicas() == 0) continue;
    // The variable is pulled even if the graph does not read it, to know its rows before the run.
    ASSIGN_OR_RETURN(const size_t pulled, pulls.FindOrAdd(layout->name(), graph.output(i)));
    bound.rows_before[static_cast<size_t>(i)] = static_cast<int64_t>(pulled);
  }
  return absl::OkStatus();
}

absl::Status BindInputs(const proto::Program& program, const onnx::GraphProto& graph,
                        const Layouts& layouts, size_t call_bytes_max, WorkerProgram& bound) {
  const std::set<std::string> tables = TablesOf(program);
  Binder pulls(layouts, tables, call_bytes_max);
  for (int i = 0; i < program.inputs_size(); ++i) {
    const proto::InputBinding& binding = program.inputs(i);
    InputSource source;
    if (binding.has_variable()) {
      source.kind = InputSource::Kind::kVariable;
      ASSIGN_OR_RETURN(source.index, pulls.Add(binding.variable(), graph.input(i)));
    } else if (binding.source_case() == proto::InputBinding::kBatchComponent) {
      source = {InputSource::Kind::kBatch, binding.batch_component()};
      bound.num_components = std::max(bound.num_components, source.index + 1);
    } else if (binding.source_case() == proto::InputBinding::kArgument) {
      source = {InputSource::Kind::kArgument, binding.argument()};
      source.of_replica = binding.of_replica();
      bound.num_arguments = std::max(bound.num_arguments, source.index + 1);
    } else {
      source.context = binding.context();
    }
    if (binding.of_replica() && source.kind != InputSource::Kind::kArgument) {
      return absl::InvalidArgumentError(absl::StrCat("input '", binding.input(),
                                                     "' is bound to the row of each replica, which "
                                                     "only an argument has (of_replica)"));
    }
    // The index of an argument or component is bounded, because the request chooses it and vectors
    // get their sizes from it.
    if (source.index >= kPositionMax) {
      return absl::InvalidArgumentError(absl::StrCat("input '", binding.input(),
                                                     "' is bound to position ", source.index,
                                                     ", beyond ", kPositionMax));
    }
    bound.inputs.push_back(source);
  }
  // The pull plan is finished after BindRowsBefore(), which may add variables to it.
  RETURN_IF_ERROR(BindRowsBefore(program, graph, layouts, pulls, bound));
  ASSIGN_OR_RETURN(bound.pulls, pulls.Finish());
  return BindLookups(program, bound);
}

// Sets the type and shape of an output that are known before a run. Leaves both unset if they
// depend on the batch or on the number of replicas that run.
void SetOutputType(const onnx::ValueInfoProto& value, const WorkerProgram& bound,
                   OutputSink& sink) {
  if (sink.kind != OutputSink::Kind::kFetch) {
    const bool push = sink.kind == OutputSink::Kind::kPush;
    const VariableType& variable = (push ? bound.pushes : bound.assigns).variables[sink.index];
    // The gradients of table rows have one row per row that the batch names; an output of one row
    // per replica has the rows of the replicas that run.
    if (variable.by_rows || sink.join == JoinRule::kReplicaRows) return;
    sink.dtype = variable.dtype;
    sink.shape = variable.shape;
    return;
  }
  const onnx::TypeProto::Tensor& type = value.type().tensor_type();
  const absl::StatusOr<DType> dtype = DTypeFromNumber(type.elem_type());
  if (!dtype.ok() || !type.has_shape()) return;
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    // A symbolic extent is not known before the run.
    if (!dim.has_dim_value()) return;
    dims.push_back(dim.dim_value());
  }
  sink.dtype = *dtype;
  sink.shape = Shape(dims);
}

absl::Status BindOutputs(const proto::Program& program, const onnx::GraphProto& graph,
                         const Layouts& layouts, size_t call_bytes_max, WorkerProgram& bound) {
  const std::set<std::string> tables = TablesOf(program);
  const std::set<std::string> whole;
  const bool joins =
      program.replicas().devices_size() > 1 || program.replicas().has_communication();
  Binder pushes(layouts, tables, call_bytes_max);
  Binder assigns(layouts, whole, call_bytes_max);
  for (int i = 0; i < program.outputs_size(); ++i) {
    const proto::OutputBinding& binding = program.outputs(i);
    OutputSink sink;
    sink.output = binding.output();
    if (binding.has_push()) {
      sink.kind = OutputSink::Kind::kPush;
      ASSIGN_OR_RETURN(sink.index, pushes.Add(binding.push(), graph.output(i)));
    } else if (binding.has_assign()) {
      sink.kind = OutputSink::Kind::kAssign;
      ASSIGN_OR_RETURN(sink.index, assigns.Add(binding.assign(), graph.output(i)));
    }
    ASSIGN_OR_RETURN(sink.join, JoinRuleOf(binding, layouts, joins));
    bound.outputs.push_back(sink);
  }
  ASSIGN_OR_RETURN(bound.pushes, pushes.Finish());
  ASSIGN_OR_RETURN(bound.assigns, assigns.Finish());
  // Types are set in a second loop, because SetOutputType() reads the finished push and assign
  // plans.
  for (int i = 0; i < program.outputs_size(); ++i) {
    SetOutputType(graph.output(i), bound, bound.outputs[static_cast<size_t>(i)]);
  }
  // A push moves the rows of a table that the pull moved, so each pushed table is matched with the
  // pulled one.
  for (const VariableType& pushed : bound.pushes.variables) {
    const auto& pulled = bound.pulls.variables;
    const auto same = std::find_if(pulled.begin(), pulled.end(), [&](const VariableType& type) {
      return type.name == pushed.name;
    });
    bound.pushed_rows.push_back(pushed.by_rows ? same - pulled.begin() : -1);
  }
  bound.training = !bound.pushes.empty() || !bound.assigns.empty();
  return absl::OkStatus();
}

// Returns for each output whether replicas leave its values on their GPUs: all float32 sums over
// replicas, and the float32 pushes of a program with a single replica. Empty if the program does
// not sum on GPUs.
std::vector<bool> LeftOnDevices(const proto::Program& program, const onnx::GraphProto& graph,
                                const std::vector<OutputSink>& outputs) {
  if (!SumsOnDevices(program)) return {};
  const bool alone = program.replicas().devices_size() == 1;
  std::vector<bool> left;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& type = graph.output(static_cast<int>(i)).type().tensor_type();
    const bool sums =
        IsSum(outputs[i].join) || (alone && outputs[i].kind == OutputSink::Kind::kPush);
    left.push_back(sums && type.elem_type() == static_cast<int>(DType::kFloat32));
  }
  return left;
}

// Compiles the join model, a graph that computes new values from joined outputs, and finds its
// inputs among the outputs of the program. Errors: INVALID_ARGUMENT if the numbers of its inputs
// and outputs differ, or if one of its inputs is not an output of the program.
absl::Status BindJoined(const proto::Program& program, const onnx::GraphProto& graph,
                        const KernelRegistry& kernels, WorkerProgram& bound) {
  if (program.joined_model().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const onnx::ModelProto model, LoadModel(program.joined_model()));
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledProgram> compiled, CompileProgram(model, kernels));
  // The join model replaces each of its inputs, which are outputs of the program's graph, by its
  // own output with the same number.
  if (model.graph().input_size() != model.graph().output_size()) {
    return absl::InvalidArgumentError("the join model needs one output for each input");
  }
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    const auto& outputs = graph.output();
    const auto output = std::find_if(outputs.begin(), outputs.end(), [&](const auto& value) {
      return value.name() == input.name();
    });
    if (output == outputs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", input.name(), "' of the join model is not an output"));
    }
    bound.joined_outputs.push_back(static_cast<size_t>(output - outputs.begin()));
  }
  bound.joined_runner = std::make_unique<ProgramRunner>(std::move(compiled));
  return absl::OkStatus();
}

// Marks the outputs that stay in GPU memory: pushes to variables there. An input of the join model
// does not stay, because the join model runs on the processor.
void MarkWhatStays(WorkerProgram& bound) {
  const std::vector<size_t>& joined = bound.joined_outputs;
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    OutputSink& sink = bound.outputs[i];
    sink.stays = sink.kind == OutputSink::Kind::kPush &&
                 bound.pushes.variables[sink.index].on_device &&
                 std::find(joined.begin(), joined.end(), i) == joined.end();
  }
}

// Returns for each slice that is pushed its ordinal among the pulled slices, or -1 if the slice is
// not pulled.
std::vector<int64_t> PulledOrdinals(const TransferPlan& pulls, const TransferPlan& pushes) {
  std::map<uint32_t, size_t> ordinal_of;
  for (const PsTransfer& home : pulls.by_ps) {
    for (const SliceTransfer& slice : home.slices) ordinal_of[slice.slice_id] = slice.ordinal;
    for (const RowSlice& slice : home.row_slices) ordinal_of[slice.slice_id] = slice.ordinal;
  }
  std::vector<int64_t> ordinals;
  const auto add = [&](uint32_t slice_id) {
    const auto found = ordinal_of.find(slice_id);
    ordinals.push_back(found == ordinal_of.end() ? -1 : static_cast<int64_t>(found->second));
  };
  for (const PsTransfer& home : pushes.by_ps) {
    for (const SliceTransfer& slice : home.slices) add(slice.slice_id);
    for (const RowSlice& slice : home.row_slices) add(slice.slice_id);
  }
  return ordinals;
}

// Logs what becomes of products that the program wants in bfloat16. GPUs have no kernels for them,
// nor have older processors.
void LogPrecision(const proto::Program& program, const onnx::GraphProto& graph) {
  const int products = CountBfloat16Products(graph);
  if (products == 0) return;
  Log(LogLevel::kInfo, "bfloat16_products",
      {{"program", program.name()},
       {"nodes", products},
       {"on_cpus", ProcessorHasBfloat16() ? "bfloat16" : "float32, since this processor has none"},
       {"on_gpus", "float32"}});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const WorkerProgram>> MakeWorkerProgram(
    const proto::RegisterProgramRequest& request, std::string registration,
    const ReplicaParts& parts) {
  const proto::Program& program = request.program();
  // A program's id is a hash of its content, so a mismatch means that the request is damaged.
  if (const std::string id = ProgramId(program); id != request.program_id()) {
    return absl::InvalidArgumentError(absl::StrCat("program '", program.name(), "' came as ",
                                                   request.program_id(), " but its content is ",
                                                   id));
  }
  ASSIGN_OR_RETURN(const onnx::ModelProto model,
                   LoadProgram(program, [&](const onnx::NodeProto& node, const ValueTypes& types) {
                     return parts.kernels.Problems(node, types);
                   }));
  auto bound = std::make_shared<WorkerProgram>();
  RETURN_IF_ERROR(NumReplicas(program).status());
  if (program.replicas().has_communication()) {
    ASSIGN_OR_RETURN(bound->communication, CommunicationOf(program.replicas().communication()));
  }
  Layouts layouts;
  for (const proto::VariableLayout& layout : request.variables()) {
    if (!layouts.emplace(layout.name(), &layout).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", layout.name(), "' has two layouts"));
    }
  }
  const std::string context = absl::StrCat("program '", program.name(), "'");
  RETURN_IF_ERROR(
      Annotate(BindInputs(program, model.graph(), layouts, parts.call_bytes_max, *bound), context));
  RETURN_IF_ERROR(Annotate(
      // Inputs and outputs are bound before the runners are made, so that a bad binding is refused
      // before the slow compilation.
      BindOutputs(program, model.graph(), layouts, parts.call_bytes_max, *bound), context));
  ASSIGN_OR_RETURN(bound->runners,
                   MakeReplicaRunners(program, model, parts,
                                      LeftOnDevices(program, model.graph(), bound->outputs)));
  absl::StatusOr<std::unique_ptr<DeviceSums>> sums = MakeDeviceSums(program, parts);
  if (!sums.ok()) return Annotate(sums.status(), context);
  bound->device_sums = *std::move(sums);
  RETURN_IF_ERROR(Annotate(BindJoined(program, model.graph(), parts.kernels, *bound), context));
  MarkWhatStays(*bound);
  absl::StatusOr<Compression> compression = ReadCompression(program.compression());
  if (!compression.ok()) return Annotate(compression.status(), context);
  bound->pulls.compression = bound->pushes.compression = *compression;
  LogPrecision(program, model.graph());
  bound->name = program.name();
  bound->registration = std::move(registration);
  bound->seed = request.seed();
  bound->pulled_ordinal = PulledOrdinals(bound->pulls, bound->pushes);
  return bound;
}

}  // namespace cohort
