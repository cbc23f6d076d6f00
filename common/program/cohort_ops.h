#pragma once

// The operators of the domain "cohort", version 1: the operators that training needs and ONNX
// lacks. All operators are pure. T is float32 or float64. An input that is called `like`, or that
// lends its shape, is read only for its shape. In the list below, an operator's inputs are in
// parentheses ("?" marks an optional input), followed by its attributes after ";" and its outputs
// after "->".
//
// ReduceToShapeOf(grad T, like) -> T
//     Sums grad over the axes along which `like` was broadcast; the result has the shape of like.
// ReshapeLike(x, like) -> type of x     the elements of x under the shape of like, of equal size.
// ZerosLike(like T) -> T                zeros in the shape of like.
// StopGradient(x T) -> T                x, through which no gradient flows.
// ReluGrad(dy, y) -> dx                 y > 0 ? dy : 0
// SigmoidGrad(dy, y) -> dx              dy * y * (1 - y)
// TanhGrad(dy, y) -> dx                 dy * (1 - y * y)
// SoftmaxGrad(dy, y; axis = -1) -> dx   y * (dy - sum(dy * y, axis))
// LogSoftmaxGrad(dy, y; axis = -1) -> dx   dy - exp(y) * sum(dy, axis)
// Gelu(x; approximate = "none") -> y
//     x times the normal distribution's probability of a number below x. With "tanh", Hendrycks and
//     Gimpel's approximation.
// Log1p(x) -> y                         log(1 + x), also right for small x.
// UnaryGrad(dy, x; function, alpha, beta, gamma) -> dx
//     dy times the derivative at x of the operator that `function` names: Abs, Reciprocal, Erf,
//     Softplus, Softsign, Elu, Selu, Celu, LeakyRelu, ThresholdedRelu, HardSigmoid, HardSwish, Sin,
//     Cos, Gelu, GeluTanh or Log1p, with the operator's attributes. unary_functions.h says what the
//     derivative is where the function has a kink.
// MaxGrad(dy, x0, x1, ...; minimum = 0) -> dx0, dx1, ...
//     The gradients of ONNX's Max, or Min if minimum = 1, in the shape of dy, to which each x
//     broadcasts. Of several largest elements, the first gets dy.
// ClipGrad(dy, x, min?, max?) -> dx     dy where min <= x <= max, else 0; the bounds are scalars.
// ReduceGrad(dy, x; axes, keepdims = 1, mean = 0) -> dx
//     Repeats dy along the reduced axes to the shape of x, which lends its shape. With mean = 1, dy
//     is also divided by the number of elements of x that were reduced to one element of dy. An
//     absent attribute axes means all axes; an empty one means no axes. Negative axes count from
//     the end.
// ReduceExtremumGrad(dy, x, y; axes, keepdims = 1) -> dx
//     The gradient of ONNX's ReduceMax or ReduceMin, where y is the result: the elements of x that
//     equal y share dy in equal parts. axes are as in ReduceGrad.
// ReduceProdGrad(dy, x; axes, keepdims = 1) -> dx
//     The gradient of ONNX's ReduceProd: dy times the product of the other elements, which is also
//     right if elements of x are 0.
// ConcatGrad(dy, x0, x1, ...; axis) -> dx0, dx1, ...
//     Cuts dy along axis into pieces of the shapes of x0, x1, ...; an output named "" is omitted.
// ClipByNorm(x0, x1, ...; clip_norm) -> c0, c1, ...
//     Multiplies each x by clip_norm / max(norm, clip_norm), where norm is the root of the sum of
//     the squares of all elements of all x. If an element is not finite, all results are NaN, as in
//     TensorFlow's clip_by_global_norm.
// ClipByValue(x; clip_value) -> c       min(max(x, -clip_value), clip_value); NaN stays NaN.
// GatherGrad(dy, indices int32 or int64, data; axis = 0) -> ddata
//     Starts with zeros in the shape of data, and adds the part of dy for each index to the
//     place along axis that the index names. data is read only for its shape.
//     Negative indices count from the end.
// SliceGrad(dy, x, starts, ends, axes?, steps?) -> dx
// PadGrad(dy, x, pads; mode = "constant") -> dx
// TileGrad(dy, x, repeats) -> dx
// GatherNDGrad(dy, x, indices; batch_dims = 0) -> dx
//     The gradients of ONNX's operators: each dy is added to the element of x from which the
//     operator took its result. x lends its shape; integers are int32 or int64.
// DropoutGrad(dy, mask bool, ratio float?, training_mode bool?) -> dx
//     training ? mask * dy / (1 - ratio) : dy. As in ONNX, an absent ratio means 0.5 and an absent
//     training_mode means false.
// SoftmaxCrossEntropyGrad(dloss, log_prob, labels int32 or int64, weights?;
//                         reduction = "mean", ignore_index) -> dscores
//     The gradient of ONNX's SoftmaxCrossEntropyLoss. The shapes are log_prob [N,C,d1..], labels
//     [N,d1..] and weights [C]. With w = weights[label] (1 if weights is absent; 0 if label ==
//     ignore_index) and g = dloss (a scalar, or for "none" the element of this label):
//     dscores = g * w * (exp(log_prob) - onehot(label)), for "mean" divided by the sum of all w.
// CategoricalCrossentropy(y_true T, y_pred T; axis = -1, from_logits = 0) -> loss
//     Keras's loss, with one value per example: the result has the shape of y_pred without axis.
//     from_logits = 1: -sum(y_true * log_softmax(y_pred)).
//     from_logits = 0: q = y_pred / sum(y_pred), p = clip(q, 1e-7, 1 - 1e-7),
//     -sum(y_true * log(p)).
// CategoricalCrossentropyGrad(dloss, y_true, y_pred; axis = -1, from_logits = 0) -> dy_pred
//     from_logits = 1: dloss * (softmax(y_pred) * sum(y_true) - y_true).
//     from_logits = 0: s = sum(y_pred), u = (q == p ? y_true / q : 0), with q and p as above:
//     dloss * (sum(u * q) - u) / s.
// SparseCategoricalCrossentropy(y_true int32, int64 or uint8, y_pred T; from_logits = 0) -> loss
//     y_true holds class numbers. y_true and the loss have the shape of y_pred without its last
//     axis. from_logits = 1: -log_softmax(y_pred) at the label. from_logits = 0: p = clip(y_pred,
//     1e-7, 1 - 1e-7), -log(p / sum(p)) at the label. Unlike the categorical loss, Keras clips
//     before it divides.
// SparseCategoricalCrossentropyGrad(dloss, y_true, y_pred; from_logits = 0) -> dy_pred
//     from_logits = 1: dloss * (softmax(y_pred) - onehot).
//     from_logits = 0: y_pred == p ? dloss * (1 / sum(p) - onehot / p) : 0.
// CtcLoss(labels int32 or int64 [N,L], logits T [N,T,C]) -> loss [N]
//     Keras's loss of connectionist temporal classification: -log of the probability of all paths
//     over the T steps that give the labels. Class 0 is the blank, and the padding behind the
//     labels; a row has as many labels as it has numbers that are not 0. Labels that no path gives
//     have an infinite loss.
// CtcLossGrad(dloss, labels, logits) -> dlogits
//     dloss * (softmax(logits) - the share of the paths in each class); 0 where the loss is
//     infinite.
// ConvInputGrad(dy, w, x; as Conv) -> dx      for ONNX's Conv(x, w, bias?); x lends its shape.
// ConvWeightGrad(dy, x, w; as Conv) -> dw     for ONNX's Conv(x, w, bias?); w lends its shape.
// ConvTransposeInputGrad(dy, w, x; as ConvTranspose) -> dx      x lends its shape.
// ConvTransposeWeightGrad(dy, x, w; as ConvTranspose) -> dw     w lends its shape.
// MaxPoolGrad(dy, x; as MaxPool) -> dx
//     Adds each dy to the largest element of its window. Of several largest elements, the first in
//     row-major order gets dy; windows of three axes add dy to all of them, as in TensorFlow. A NaN
//     counts as the largest; of several, the last one, as in PyTorch.
// AveragePoolGrad(dy, x; as AveragePool) -> dx      x lends its shape.
// ResizeGrad(dy, x, roi?, scales?, sizes?; as Resize) -> dx
//     Adds each dy, times the weight with which ONNX's Resize took it, to the elements of x; x
//     lends its shape.
// BatchNormalizationGrad(dy, x, scale, mean?, variance?; epsilon = 1e-5, training_mode = 0)
//     -> dx, dscale, dbias
//     The gradient of ONNX's BatchNormalization. In training mode, the mean and the variance are
//     those of the batch: they are computed again from x, and the gradient takes into account that
//     they depend on x. Otherwise they are inputs and constant.
// LayerNormalizationGrad(dy, x, scale, mean float?, inv_std_dev float?; axis = -1, epsilon = 1e-5)
//     -> dx, dscale, dbias
//     The gradient of ONNX's LayerNormalization, from the statistics that the operator has kept, or
//     from statistics that are computed again if both are absent.
// GroupNormalization(x, scale, bias; groups = 0, epsilon = 1e-5) -> y
//     For x [N,C,d1..], subtracts the mean of each group of neighbouring channels of an example,
//     divides by the root of the variance plus epsilon, then applies the scale and the bias [C] of
//     the channel. groups = 0 makes a group of each channel, as ONNX's InstanceNormalization does.
// GroupNormalizationGrad(dy, x, scale; groups = 0, epsilon = 1e-5) -> dx, dscale, dbias
//     The gradient of GroupNormalization and InstanceNormalization.
// Recurrent(x, w, r, b?, mask bool?, initial_h?, initial_c?, peepholes?; cell, as LSTM, GRU or RNN,
//           zero_output_for_mask = 0, go_backwards = 0) -> y, y_h, y_c, saved
//     ONNX's LSTM, GRU or RNN, as cell says, with a mask in place of the lengths of sequences: one
//     element for each step, in the order of x's first two axes. A step whose element is false
//     keeps the states, and repeats the output of the last step that counted: zeros if there was
//     none, or with zero_output_for_mask = 1. go_backwards = 1 walks from the last step to the
//     first, and y has the outputs in this order. clip and input_forget are not supported. saved is
//     for the gradient (recurrent_shape.h says what it holds).
// RecurrentGrad(x, w, r, b?, mask bool?, initial_h?, initial_c?, peepholes?, dy?, dy_h?, dy_c?,
//               saved?, sequence_lens int32?; as Recurrent)
//     -> dx, dw, dr, db, dinitial_h, dinitial_c, dpeepholes
//     The gradients of Recurrent and of ONNX's LSTM, GRU and RNN, whose lengths of sequences are
//     its last input. Without saved, the steps are computed again. An absent input counts as zeros,
//     and so has a gradient, too.
// AllReduce(x; reduction "sum" or "mean", of_mean_losses = 0) -> type and shape of x
//     Reduces x over the replicas that run this step; each replica gets the same result. With
//     of_mean_losses = 1, which the operator's own gradient uses, x is a gradient of the mean loss
//     over one replica's examples, and the result is a gradient of the mean loss over all examples:
//     each replica counts by its number of examples.
// AllGather(x; axis = 0) -> type and rank of x
//     Joins the x of the replicas that run this step along axis, in the replicas' order. The sizes
//     along the axis may differ.
// AllGatherGrad(dy, x; axis) -> dx
//     Returns the replica's own part of the sum of all dy, where each dy is a gradient of a mean
//     loss, as in AllReduce with of_mean_losses = 1. x lends its shape.
//
// Clip bounds and sums are computed in T or in a wider type.
// A label outside [0, classes) that is not ignore_index, or an index outside its axis, makes the
// kernel fail with INVALID_ARGUMENT, which names the node and the number.

#include "absl/status/status.h"

namespace cohort {

// The domain of the operators that ONNX lacks, and the versions that models made by Cohort import.
inline constexpr char kCohortDomain[] = "cohort";
inline constexpr int kCohortOpset = 1;
inline constexpr int kOnnxOpset = 17;
// The version of ONNX's file format (IR) that belongs to opset 17.
inline constexpr int kOnnxIrVersion = 8;

// Registers the operator schemas of the cohort domain with libonnx, once in each process. Code that
// loads, checks or builds a model must call this function first. Thread-safe.
absl::Status RegisterCohortSchemas();

}  // namespace cohort
