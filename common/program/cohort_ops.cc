#include "common/program/cohort_ops.h"

#include <exception>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "onnx/defs/schema.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::OpSchemaRegistry;

// Returns a schema of the cohort domain in which the type parameter T stands for float32 and
// float64.
OpSchema NewCohortSchema(const char* name) {
  OpSchema schema;
  schema.SetName(name).SetDomain(kCohortDomain).SinceVersion(kCohortOpset);
  schema.SetLocation(__FILE__, __LINE__);
  schema.TypeConstraint("T", {"tensor(float)", "tensor(double)"}, "real numbers");
  return schema;
}

// Adds the type parameter `name`, which stands for every tensor type.
OpSchema& AnyType(OpSchema& schema, const char* name) {
  return schema.TypeConstraint(name, OpSchema::all_tensor_types_with_bfloat(), "any");
}

// Gives output 0 the element type of input `type` and the shape of input `shape`.
void SetOutput(InferenceContext& ctx, size_t type, size_t shape) {
  onnx::propagateElemTypeFromInputToOutput(ctx, type, 0);
  // If the shape of the input is unknown, the shape of the output stays unknown. This is no error.
  if (onnx::hasInputShape(ctx, shape)) onnx::propagateShapeFromInputToOutput(ctx, shape, 0);
}

template <size_t kType, size_t kShape>
void LikeInput(InferenceContext& ctx) {
  SetOutput(ctx, kType, kShape);
}

// Infers the output of an operator whose inputs dy and y must have the same shape. Different shapes
// of dy and y are an error of the graph.
void ElementwiseGrad(InferenceContext& ctx) {
  SetOutput(ctx, 0, 1);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const auto& dy = onnx::getInputShape(ctx, 0);
  const auto& y = onnx::getInputShape(ctx, 1);
  if (dy.dim_size() != y.dim_size()) fail_shape_inference("dy and y differ in rank");
  for (int i = 0; i < dy.dim_size(); ++i) {
    if (dy.dim(i).has_dim_value() && y.dim(i).has_dim_value() &&
        dy.dim(i).dim_value() != y.dim(i).dim_value()) {
      fail_shape_inference("dy and y differ in dimension ", i);
    }
  }
}

OpSchema ElementwiseGradSchema(const char* name) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "y", "", "T").Output(0, "dx", "", "T");
  schema.TypeAndShapeInferenceFunction(ElementwiseGrad);
  return schema;
}

OpSchema SoftmaxGradSchema(const char* name) {
  OpSchema schema = ElementwiseGradSchema(name);
  schema.Attr("axis", "the axis of the sum", AttributeProto::INT, int64_t{-1});
  return schema;
}

// Infers the outputs of ConcatGrad: output i has the type of dy (input 0) and the shape of input i
// + 1.
void ConcatGrad(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i + 1 < ctx.getNumInputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, i);
    if (onnx::hasInputShape(ctx, i + 1)) onnx::propagateShapeFromInputToOutput(ctx, i + 1, i);
  }
}

// Infers the shape of a crossentropy loss, which is the shape of y_pred (input 1) without the axis
// of the classes.
void CrossentropyLoss(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 1, 0);
  if (!onnx::hasInputShape(ctx, 1)) return;
  const auto& pred = onnx::getInputShape(ctx, 1);
  const int64_t rank = pred.dim_size();
  int64_t axis = onnx::getAttribute(ctx, "axis", int64_t{-1});
  if (rank == 0 || axis < -rank || axis >= rank) {
    fail_shape_inference("axis ", axis, " does not fit y_pred of rank ", rank);
  }
  if (axis < 0) axis += rank;
  auto* shape = ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  for (int i = 0; i < pred.dim_size(); ++i) {
    if (i != axis) *shape->add_dim() = pred.dim(i);
  }
}

// Infers the loss's shape and checks that the labels have that shape: [N] for scores [N,C]. A
// column of labels [N,1] is an error, because silent broadcasting would give an [N,N] loss.
void SparseCrossentropyLoss(InferenceContext& ctx) {
  CrossentropyLoss(ctx);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const int labels = onnx::getInputShape(ctx, 0).dim_size();
  const int pred = onnx::getInputShape(ctx, 1).dim_size();
  if (labels + 1 != pred) {
    fail_shape_inference("y_true has rank ", labels, " and y_pred has rank ", pred,
                         ": y_true has the shape of y_pred without its last axis");
  }
}

// Infers the shape of a categorical crossentropy loss, and checks that y_true and y_pred have the
// same shape.
void CategoricalCrossentropyInference(InferenceContext& ctx) {
  CrossentropyLoss(ctx);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const auto& y_true = onnx::getInputShape(ctx, 0);
  const auto& y_pred = onnx::getInputShape(ctx, 1);
  if (y_true.dim_size() != y_pred.dim_size()) {
    fail_shape_inference("y_true has rank ", y_true.dim_size(), " and y_pred has rank ",
                         y_pred.dim_size(), ": they have one shape");
  }
  for (int i = 0; i < y_true.dim_size(); ++i) {
    if (y_true.dim(i).has_dim_value() && y_pred.dim(i).has_dim_value() &&
        y_true.dim(i).dim_value() != y_pred.dim(i).dim_value()) {
      fail_shape_inference("y_true and y_pred differ in dimension ", i);
    }
  }
}

OpSchema ReduceToShapeOfSchema() {
  OpSchema schema = NewCohortSchema("ReduceToShapeOf");
  schema.Input(0, "grad", "", "T").Input(1, "like", "", "A").Output(0, "reduced", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return AnyType(schema, "A");
}

OpSchema ReshapeLikeSchema() {
  OpSchema schema = NewCohortSchema("ReshapeLike");
  schema.Input(0, "x", "", "A").Input(1, "like", "", "B").Output(0, "reshaped", "", "A");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  AnyType(schema, "A");
  return AnyType(schema, "B");
}

OpSchema ZerosLikeSchema() {
  OpSchema schema = NewCohortSchema("ZerosLike");
  schema.Input(0, "like", "", "T").Output(0, "zeros", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema ReduceGradSchema() {
  OpSchema schema = NewCohortSchema("ReduceGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  schema.Attr("axes", "reduced axes", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  schema.Attr("keepdims", "dy keeps reduced axes", AttributeProto::INT, int64_t{1});
  schema.Attr("mean", "of a mean", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return schema;
}

OpSchema ConcatGradSchema() {
  OpSchema schema = NewCohortSchema("ConcatGrad");
  schema.Input(0, "dy", "", "T");
  schema.Input(1, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "dx", "", "T", OpSchema::Variadic);
  schema.Attr("axis", "the axis of the concatenation", AttributeProto::INT);
  schema.TypeAndShapeInferenceFunction(ConcatGrad);
  return schema;
}

// Gives output `output` the type and the shape of input `input`.
void Like(InferenceContext& ctx, size_t input, size_t output) {
  if (output >= ctx.getNumOutputs()) return;
  onnx::propagateElemTypeFromInputToOutput(ctx, input, output);
  if (onnx::hasInputShape(ctx, input)) {
    onnx::propagateShapeFromInputToOutput(ctx, input, output);
  }
}

// Gives output i the type and the shape of input i.
void LikeEachInput(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i < ctx.getNumInputs(); ++i) {
    Like(ctx, i, i);
  }
}

OpSchema ClipByNormSchema() {
  OpSchema schema = NewCohortSchema("ClipByNorm");
  schema.Input(0, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "clipped", "", "T", OpSchema::Variadic);
  schema.Attr("clip_norm", "the largest norm", AttributeProto::FLOAT);
  schema.TypeAndShapeInferenceFunction(LikeEachInput);
  return schema;
}

OpSchema ClipByValueSchema() {
  OpSchema schema = NewCohortSchema("ClipByValue");
  schema.Input(0, "x", "", "T").Output(0, "clipped", "", "T");
  schema.Attr("clip_value", "the largest size", AttributeProto::FLOAT);
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema GatherGradSchema() {
  OpSchema schema = NewCohortSchema("GatherGrad");
  schema.Input(0, "dy", "", "T").Input(1, "indices", "", "I").Input(2, "data", "", "T");
  schema.Output(0, "ddata", "", "T");
  schema.TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "indices");
  schema.Attr("axis", "the axis that was gathered", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 2>);
  return schema;
}

OpSchema DropoutGradSchema() {
  OpSchema schema = NewCohortSchema("DropoutGrad");
  schema.Input(0, "dy", "", "T").Input(1, "mask", "", "B");
  schema.Input(2, "ratio", "", "R", OpSchema::Optional);
  schema.Input(3, "training_mode", "", "B", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.TypeConstraint("B", {"tensor(bool)"}, "bool");
  schema.TypeConstraint("R", {"tensor(float)", "tensor(double)"}, "a probability");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return schema;
}

OpSchema SoftmaxCrossEntropyGradSchema() {
  OpSchema schema = NewCohortSchema("SoftmaxCrossEntropyGrad");
  schema.Input(0, "dloss", "", "T").Input(1, "log_prob", "", "T").Input(2, "labels", "", "I");
  schema.Input(3, "weights", "", "T", OpSchema::Optional);
  schema.Output(0, "dscores", "", "T");
  schema.TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "class numbers");
  schema.Attr("reduction", "none, mean or sum", AttributeProto::STRING, std::string("mean"));
  schema.Attr("ignore_index", "a label to leave out", AttributeProto::INT, onnx::OPTIONAL_VALUE);
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

// Returns the schema of a crossentropy operator, or of the operator's gradient if `grad` is true.
// The crossentropy is categorical if `labels` is "T", and sparse if `labels` is "L".
OpSchema CrossentropySchema(const char* name, const char* labels, bool grad) {
  OpSchema schema = NewCohortSchema(name);
  const bool sparse = std::string(labels) == "L";
  // A gradient operator has dloss as its first input, before the inputs of the forward operator.
  const int first = grad ? 1 : 0;
  if (grad) schema.Input(0, "dloss", "", "T");
  schema.Input(first, "y_true", "", labels).Input(first + 1, "y_pred", "", "T");
  schema.Output(0, grad ? "dy_pred" : "loss", "", "T");
  schema.Attr("from_logits", "y_pred holds logits", AttributeProto::INT, int64_t{0});
  if (sparse) {
    schema.TypeConstraint("L", {"tensor(int32)", "tensor(int64)", "tensor(uint8)"}, "classes");
  } else {
    schema.Attr("axis", "the axis of the classes", AttributeProto::INT, int64_t{-1});
  }
  if (grad) {
    schema.TypeAndShapeInferenceFunction(LikeInput<2, 2>);
  } else if (sparse) {
    schema.TypeAndShapeInferenceFunction(SparseCrossentropyLoss);
  } else {
    schema.TypeAndShapeInferenceFunction(CategoricalCrossentropyInference);
  }
  return schema;
}

// The section below has the gradients of convolution, pooling and normalization, and the operators
// that combine values of the replicas that run one step.

// Infers the outputs of BatchNormalizationGrad: dx has the shape of x, and dscale and dbias have
// the shape of scale.
void LikeXAndScale(InferenceContext& ctx) {
  Like(ctx, 1, 0);
  Like(ctx, 2, 1);
  Like(ctx, 2, 2);
}

// Adds the attributes that ONNX's convolutions and poolings share.
void AddWindowAttributes(OpSchema& schema) {
  schema.Attr("auto_pad", "as in ONNX", AttributeProto::STRING, std::string("NOTSET"));
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  }
}

// Returns the schema of an operator for one of Conv's gradients. The operator computes the gradient
// of the Conv input `like` from dy and from `operand`, the other factor of the convolution.
OpSchema ConvGradSchema(const char* name, const char* operand, const char* like) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, operand, "", "T").Input(2, like, "", "T");
  schema.Output(0, "gradient", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("group", "as in ONNX", AttributeProto::INT, int64_t{1});
  schema.TypeAndShapeInferenceFunction(LikeInput<2, 2>);
  return schema;
}

// Returns the schema of the gradient of MaxPool or AveragePool. `flag` is the attribute that only
// this pooling operator has.
OpSchema PoolGradSchema(const char* name, const char* flag) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("ceil_mode", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.Attr(flag, "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

OpSchema BatchNormalizationGradSchema() {
  OpSchema schema = NewCohortSchema("BatchNormalizationGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Input(2, "scale", "", "T");
  schema.Input(3, "mean", "", "T", OpSchema::Optional);
  schema.Input(4, "variance", "", "T", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.Output(1, "dscale", "", "T", OpSchema::Optional);
  schema.Output(2, "dbias", "", "T", OpSchema::Optional);
  schema.Attr("epsilon", "as in ONNX", AttributeProto::FLOAT, 1e-5f);
  schema.Attr("training_mode", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeXAndScale);
  return schema;
}

OpSchema AllReduceSchema() {
  OpSchema schema = NewCohortSchema("AllReduce");
  schema.Input(0, "x", "", "T").Output(0, "reduced", "", "T");
  schema.Attr("reduction", "sum or mean", AttributeProto::STRING);
  schema.Attr("of_mean_losses", "x is a gradient", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

// Infers the output of AllGather: the type and rank of x, and the sizes of x except along the axis.
void InferAllGather(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  if (!onnx::hasInputShape(ctx, 0)) return;
  onnx::propagateShapeFromInputToOutput(ctx, 0, 0);
  auto* const shape = ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const int64_t axis = onnx::getAttribute(ctx, "axis", int64_t{0});
  const int64_t place = axis < 0 ? axis + shape->dim_size() : axis;
  // The size of the output along the gathered axis is the sum over the replicas, which is unknown
  // because replicas may have different sizes.
  if (place >= 0 && place < shape->dim_size()) shape->mutable_dim(static_cast<int>(place))->Clear();
}

OpSchema AllGatherSchema() {
  OpSchema schema = NewCohortSchema("AllGather");
  schema.Input(0, "x", "", "A").Output(0, "gathered", "", "A");
  schema.TypeConstraint("A", OpSchema::all_tensor_types(), "any");
  schema.Attr("axis", "along which", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(InferAllGather);
  return schema;
}

OpSchema AllGatherGradSchema() {
  OpSchema schema = NewCohortSchema("AllGatherGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  schema.Attr("axis", "as AllGather's", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

// Appends the schemas of the operators for convolution, pooling, normalization and replicas.
void AddImageSchemas(std::vector<OpSchema>& schemas) {
  schemas.push_back(ConvGradSchema("ConvInputGrad", "w", "x"));
  schemas.push_back(ConvGradSchema("ConvWeightGrad", "x", "w"));
  schemas.push_back(PoolGradSchema("MaxPoolGrad", "storage_order"));
  schemas.push_back(PoolGradSchema("AveragePoolGrad", "count_include_pad"));
  schemas.push_back(BatchNormalizationGradSchema());
  schemas.push_back(AllReduceSchema());
  schemas.push_back(AllGatherSchema());
  schemas.push_back(AllGatherGradSchema());
}

// Returns the schemas of all cohort operators, with type and shape inference, in a fixed order.
std::vector<OpSchema> CohortSchemas() {
  std::vector<OpSchema> schemas = {
      ReduceToShapeOfSchema(),
      ReshapeLikeSchema(),
      ZerosLikeSchema(),
      ElementwiseGradSchema("ReluGrad"),
      ElementwiseGradSchema("SigmoidGrad"),
      ElementwiseGradSchema("TanhGrad"),
      SoftmaxGradSchema("SoftmaxGrad"),
      SoftmaxGradSchema("LogSoftmaxGrad"),
      ReduceGradSchema(),
      ConcatGradSchema(),
      ClipByNormSchema(),
      ClipByValueSchema(),
      GatherGradSchema(),
      DropoutGradSchema(),
      SoftmaxCrossEntropyGradSchema(),
      CrossentropySchema("CategoricalCrossentropy", "T", false),
      CrossentropySchema("CategoricalCrossentropyGrad", "T", true),
      CrossentropySchema("SparseCategoricalCrossentropy", "L", false),
      CrossentropySchema("SparseCategoricalCrossentropyGrad", "L", true)};
  AddImageSchemas(schemas);
  return schemas;
}

// Registers the cohort domain and all its schemas with libonnx.
absl::Status RegisterAll() {
  auto& domains = OpSchemaRegistry::DomainToVersionRange::Instance();
  if (domains.Map().count(kCohortDomain) == 0) {
    domains.AddDomainToVersion(kCohortDomain, kCohortOpset, kCohortOpset);
  }
  for (OpSchema& schema : CohortSchemas()) {
    const std::string name = schema.Name();
    try {
      const OpSchemaRegistry::OpSchemaRegisterOnce once(schema);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("schema of cohort.", name, ": ", error.what()));
    }
    // libonnx prints some registration errors and continues, so only looking the schema up shows
    // whether the registration succeeded.
    if (OpSchemaRegistry::Schema(name, kCohortOpset, kCohortDomain) == nullptr) {
      return absl::InternalError(
          absl::StrCat("schema of cohort.", name, " was refused by libonnx"));
    }
  }
  return absl::OkStatus();
}

// The result of registering the schemas, and the flag that makes the registration happen once. A
// process has one Registration, because it has one registry of libonnx.
struct Registration {
  absl::once_flag once;
  absl::Status status;
};

Registration& TheRegistration() {
  // The Registration is never destroyed, because threads may load models while the process exits.
  static auto* const registration = new Registration;
  return *registration;
}

}  // namespace

absl::Status RegisterCohortSchemas() {
  Registration& registration = TheRegistration();
  absl::call_once(registration.once, [&] { registration.status = RegisterAll(); });
  return registration.status;
}

}  // namespace cohort
