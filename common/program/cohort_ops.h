#pragma once

// The operators of the domain "cohort", version 1: what ONNX lacks for training. All are pure. T is
// float32 or float64; an input called like, or said to lend its shape, is read for its shape only.
// Inputs in parentheses ("?" is optional), attributes after ";".
//
// ReduceToShapeOf(grad T, like) -> T
//     grad summed over the axes along which `like` was broadcast; it has the shape of like.
// ReshapeLike(x, like) -> type of x     the elements of x under the shape of like, as many.
// ZerosLike(like T) -> T                zeros.
// ReluGrad(dy, y) -> dx                 y > 0 ? dy : 0
// SigmoidGrad(dy, y) -> dx              dy * y * (1 - y)
// TanhGrad(dy, y) -> dx                 dy * (1 - y * y)
// SoftmaxGrad(dy, y; axis = -1) -> dx   y * (dy - sum(dy * y, axis))
// LogSoftmaxGrad(dy, y; axis = -1) -> dx   dy - exp(y) * sum(dy, axis)
// ReduceGrad(dy, x; axes, keepdims = 1, mean = 0) -> dx
//     dy repeated along the reduced axes to the shape of x (which lends its shape); with mean = 1
//     divided by the number of elements of x that one element of dy stands for. Attribute axes
//     absent: all axes; empty: none. Negative axes count from the end.
// ConcatGrad(dy, x0, x1, ...; axis) -> dx0, dx1, ...
//     dy cut along axis into pieces of the shapes of x0, x1, ...; an output named "" is not wanted.
// ClipByNorm(x0, x1, ...; clip_norm) -> c0, c1, ...
//     each x times clip_norm / max(norm, clip_norm), where norm is the root of the sum of the
//     squares of all elements of all x; all NaN where an element is not finite, as in TensorFlow's
//     clip_by_global_norm.
// ClipByValue(x; clip_value) -> c       min(max(x, -clip_value), clip_value); NaN stays NaN.
// GatherGrad(dy, indices int32 or int64, data; axis = 0) -> ddata
//     zeros of the shape of data, to which dy's slices are added at indices (negative ones count
//     from the end); data lends its shape.
// DropoutGrad(dy, mask bool, ratio float?, training_mode bool?) -> dx
//     training ? mask * dy / (1 - ratio) : dy. Absent: ratio 0.5, training_mode false, as in ONNX.
// SoftmaxCrossEntropyGrad(dloss, log_prob, labels int32 or int64, weights?;
//                         reduction = "mean", ignore_index) -> dscores
//     of ONNX SoftmaxCrossEntropyLoss: log_prob [N,C,d1..], labels [N,d1..], weights [C]. With
//     w = weights[label] (1 where weights is absent; 0 where label == ignore_index) and g = dloss
//     (a scalar; for "none" the element of this label):
//     dscores = g * w * (exp(log_prob) - onehot(label)), for "mean" divided by the sum of all w.
// CategoricalCrossentropy(y_true T, y_pred T; axis = -1, from_logits = 0) -> loss
//     Keras's, one loss per example: the shape of y_pred without axis.
//     from_logits = 1: -sum(y_true * log_softmax(y_pred)).
//     0: q = y_pred / sum(y_pred), p = clip(q, 1e-7, 1 - 1e-7), -sum(y_true * log(p)).
// CategoricalCrossentropyGrad(dloss, y_true, y_pred; axis = -1, from_logits = 0) -> dy_pred
//     from_logits = 1: dloss * (softmax(y_pred) * sum(y_true) - y_true).
//     0: s = sum(y_pred), u = y_true / q where q == p, else 0: dloss * (sum(u * q) - u) / s.
// SparseCategoricalCrossentropy(y_true int32, int64 or uint8, y_pred T; from_logits = 0) -> loss
//     y_true holds class numbers and has the shape of y_pred without its last axis, as the loss
//     has. from_logits = 1: -log_softmax(y_pred) at the label. 0: p = clip(y_pred, 1e-7, 1 - 1e-7),
//     -log(p / sum(p)) at the label (Keras clips first here).
// SparseCategoricalCrossentropyGrad(dloss, y_true, y_pred; from_logits = 0) -> dy_pred
//     from_logits = 1: dloss * (softmax(y_pred) - onehot).
//     0: dloss * (1 / sum(p) - onehot / p) where y_pred == p, else 0.
// ConvInputGrad(dy, w, x; as Conv) -> dx      of ONNX Conv(x, w, bias?); x lends its shape.
// ConvWeightGrad(dy, x, w; as Conv) -> dw     w lends its shape.
// MaxPoolGrad(dy, x; as MaxPool) -> dx
//     each dy goes to the largest element of its window, the first of equal ones in row-major
//     order; a NaN is the largest.
// AveragePoolGrad(dy, x; as AveragePool) -> dx      x lends its shape.
// BatchNormalizationGrad(dy, x, scale, mean?, variance?; epsilon = 1e-5, training_mode = 0)
//     -> dx, dscale, dbias
//     of ONNX BatchNormalization. In training mode mean and variance are the batch's, worked out
//     again from x and moved by it; else they are given and constant.
// AllReduce(x; reduction "sum" or "mean", of_mean_losses = 0) -> type and shape of x
//     over the replicas that run this step, each of which gets the same. With of_mean_losses, which
//     its gradient has, x is a gradient of the mean loss over a replica's own examples, and so is
//     the result, of the mean over all: each counts by its examples.
// AllGather(x; axis = 0) -> type and rank of x
//     of the replicas that run this step one behind the other, in their order; sizes along the axis
//     may differ.
// AllGatherGrad(dy, x; axis) -> dx
//     of the mean loss, as with of_mean_losses: the replica's own part of the sum. x lends its
//     size.
//
// Clip bounds and sums are taken in T or wider.
// A label outside [0, classes) that is not ignore_index, or an index outside its axis, is an error
// of the kernel: INVALID_ARGUMENT naming the node and the number.

#include <vector>

#include "onnx/defs/schema.h"

namespace cohort {

// Returns the schemas, with type and shape inference, in a fixed order.
std::vector<onnx::OpSchema> CohortSchemas();

// Appends the schemas for images and replicas (image_ops.cc). Called by CohortSchemas alone.
void AddImageSchemas(std::vector<onnx::OpSchema>& schemas);

}  // namespace cohort
