#!/usr/bin/env python3
"""Small models over the layers that are supported, as one version of Keras writes them, with their outputs:
make_configs.py FILE [NAME...].

Runs under whatever `import keras` gives (Keras 2 with TensorFlow, Keras 3 with any backend; another release's wheel may stand first
on PYTHONPATH) and writes a line of JSON for each model, or for those that are named, to FILE. pack_configs.py packs the files of all
versions. Models that a version cannot make are left out, with a line that says why. The numpy backend is the quickest, but loses
masks before Keras 3.15: the models with masks of those versions are made with another one, into a file that is packed after theirs.
Keras 2.13 to 2.15 ran with TensorFlow 2.15.1, older ones by old_keras.py.

A line: `name`, `keras`, `model` (what to_json returned), `inputs` and `weights` in the order of the model's, `outputs`. Values of
inputs and weights are made by a rule, so that they need no room: {"seed": S, "low": a, "high": b, "shape": [...]} has the element
float32(a + (b - a) u), u from numpy's RandomState(S).random_sample; with "whole" true it is floor(a + (b - a) u), int32. `weights`
have the path of their layer.
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import keras  # noqa: E402
from keras import layers as L  # noqa: E402

BATCH = 3  # examples
STEPS = 5  # the length of a sequence that the model leaves open
K3 = int(keras.__version__.split(".")[0]) >= 3
MODELS = {}


def model(builder):
    MODELS[builder.__name__] = builder
    return builder


def input_(shape, name="x", **kwargs):
    return keras.Input(shape, name=name, **kwargs)


def ids(shape, name="ids"):
    return keras.Input(shape, name=name, dtype="int32")


def functional(inputs, outputs, name="net"):
    return keras.Model(inputs, outputs, name=name)


@model
def dense_options():
    x = input_((4,))
    y = L.Dense(5, activation="gelu", kernel_initializer="he_normal", kernel_regularizer="l2", name="a")(x)
    y = L.Dense(3, use_bias=False, activation="selu", bias_initializer="ones", name="b")(y)
    return functional(x, L.Dense(2, activation="softmax", trainable=False, name="c")(y))


@model
def sequential_of_activations():
    names = ["elu", "exponential", "hard_sigmoid", "linear", "relu", "selu", "sigmoid", "softplus", "softsign", "tanh", "softmax"]
    return keras.Sequential([input_((6,))] + [L.Dense(6, activation=n, name=n + "_layer") for n in names], name="net")


@model
def activation_layers():
    x = input_((4, 3))
    slope = {"negative_slope": 0.2} if K3 else {"alpha": 0.2}
    ys = [L.ReLU(max_value=0.7, negative_slope=0.1, threshold=0.2, name="relu")(x), L.LeakyReLU(name="leaky", **slope)(x),
          L.ELU(0.5, name="elu")(x), L.PReLU(shared_axes=[1], name="prelu")(x), L.Softmax(axis=1, name="soft")(x),
          L.Activation("swish", name="swish")(x)]
    return functional(x, L.Concatenate(name="all")(ys))


@model
def convolution_options():
    x = input_((9, 8, 4))
    y = L.Conv2D(6, (3, 2), strides=(2, 1), padding="same", activation="relu", name="a")(x)
    y = L.Conv2D(4, 2, dilation_rate=2, use_bias=False, name="b")(y)
    y = L.Conv2D(4, 1, groups=2, name="c")(y)
    return functional(x, L.GlobalAveragePooling2D(keepdims=True, name="mean")(y))


@model
def convolution_channels_first():
    x = input_((3, 7, 6))
    y = L.ZeroPadding2D(((1, 0), (2, 1)), data_format="channels_first", name="pad")(x)
    y = L.Cropping2D(((0, 1), (1, 0)), data_format="channels_first", name="crop")(y)
    y = L.UpSampling2D((2, 1), data_format="channels_first", name="up")(y)
    return functional(x, L.Flatten(data_format="channels_first", name="flat")(y))


@model
def depthwise_and_separable():
    x = input_((8, 8, 3))
    y = L.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="relu", name="depthwise")(x)
    y = L.SeparableConv2D(5, 3, strides=2, depth_multiplier=2, name="separable")(y)
    return functional(x, L.GlobalMaxPooling2D(name="max")(y))


@model
def transposed_convolutions():
    x = input_((4, 5, 3))
    y = L.Conv2DTranspose(4, 3, strides=2, padding="same", activation="tanh", name="up")(x)
    y = L.Conv2DTranspose(2, (2, 3), use_bias=False, name="more")(y)
    return functional(x, L.Cropping2D(((1, 2), (0, 3)), name="crop")(y))


@model
def one_dimension():
    x = input_((11, 3))
    y = L.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu", name="causal")(x)
    y = L.MaxPooling1D(2, name="max")(y)
    y = L.ZeroPadding1D(1, name="pad")(y)
    y = L.SeparableConv1D(5, 2, name="separable")(y)
    y = L.AveragePooling1D(2, padding="same", name="mean")(y)
    y = L.UpSampling1D(3, name="up")(y)
    return functional(x, L.Cropping1D((1, 2), name="crop")(y))


@model
def three_dimensions():
    x = input_((4, 5, 6, 2))
    y = L.Conv3D(3, 2, padding="same", name="conv")(x)
    y = L.MaxPooling3D((2, 1, 2), name="max")(y)
    y = L.ZeroPadding3D(1, name="pad")(y)
    y = L.AveragePooling3D(2, name="mean")(y)
    return functional(x, L.GlobalAveragePooling3D(name="all")(y))


@model
def pooling_same():
    x = input_((7, 6, 2))
    a = L.MaxPooling2D(3, strides=2, padding="same", name="max")(x)
    b = L.AveragePooling2D(3, strides=2, padding="same", name="mean")(x)
    return functional(x, L.Maximum(name="larger")([a, b]))


@model
def residual_block():
    x = input_((6, 6, 4))
    y = L.Conv2D(4, 3, padding="same", use_bias=False, name="conv_a")(x)
    y = L.BatchNormalization(momentum=0.9, epsilon=1e-4, name="bn_a")(y)
    y = L.ReLU(name="relu_a")(y)
    y = L.Conv2D(4, 3, padding="same", use_bias=False, name="conv_b")(y)
    y = L.BatchNormalization(scale=False, name="bn_b")(y)
    y = L.Add(name="add")([x, y])
    return functional(x, L.Dense(3, name="out")(L.GlobalAveragePooling2D(name="pool")(L.Activation("relu", name="relu_b")(y))))


@model
def normalizations():
    x = input_((5, 8))
    y = L.LayerNormalization(axis=[1, 2], epsilon=1e-4, name="both")(x)
    y = L.LayerNormalization(center=False, name="last")(y)
    y = L.BatchNormalization(axis=1, center=False, name="bn")(y)
    return functional(x, L.UnitNormalization(name="unit")(y))


@model
def group_normalization():
    x = input_((4, 4, 6))
    return functional(x, L.GroupNormalization(groups=3, epsilon=1e-4, name="groups")(x))


@model
def merges():
    a, b = input_((3, 4), "a"), input_((3, 4), "b")
    ys = [L.Add(name="add")([a, b]), L.Subtract(name="sub")([a, b]), L.Multiply(name="mul")([a, b]), L.Average(name="mean")([a, b]),
          L.Maximum(name="max")([a, b]), L.Minimum(name="min")([a, b])]
    both = L.Concatenate(axis=1, name="all")(ys)
    return functional([a, b], [both, L.Dot(axes=2, normalize=True, name="dot")([a, b])])


@model
def reshapes():
    x = input_((4, 6))
    y = L.Reshape((3, -1), name="shape")(x)
    y = L.Permute((2, 1), name="swap")(y)
    y = L.Flatten(name="flat")(y)
    y = L.Dense(3, name="small")(y)
    return functional(x, L.RepeatVector(4, name="repeat")(y))


@model
def recurrent_layers():
    x = input_((None, 4))
    y = L.LSTM(3, return_sequences=True, name="lstm")(x)
    y = L.GRU(4, return_sequences=True, recurrent_activation="hard_sigmoid", name="gru")(y)
    return functional(x, L.SimpleRNN(2, activation="relu", go_backwards=True, name="rnn")(y))


@model
def gru_of_both_kinds():
    x = input_((6, 3))
    a = L.GRU(3, reset_after=False, name="before")(x)
    b = L.GRU(3, reset_after=True, use_bias=False, name="after")(x)
    return functional(x, L.Subtract(name="sub")([a, b]))


@model
def states():
    x = input_((5, 3))
    y, h, c = L.LSTM(4, return_sequences=True, return_state=True, name="encoder")(x)
    return functional(x, [L.LSTM(4, name="decoder")(y, initial_state=[h, c]), h])


@model
def masked_text():
    x = ids((None,))
    y = L.Embedding(20, 6, mask_zero=True, name="table")(x)
    y = L.Bidirectional(L.LSTM(3, return_sequences=True), name="both")(y)
    y = L.Bidirectional(L.GRU(2), merge_mode="sum", name="sum")(y)
    return functional(x, L.Dense(2, activation="sigmoid", name="out")(y))


@model
def masked_mean():
    x = ids((6,))
    y = L.Embedding(15, 4, mask_zero=True, name="table")(x)
    y = L.Dense(3, name="dense")(y)
    return functional(x, L.GlobalAveragePooling1D(name="mean")(y))


@model
def sequential_text():
    return keras.Sequential([ids((7,)), L.Embedding(12, 5, mask_zero=True, name="table"), L.Dropout(0.3, name="drop"),
                             L.LSTM(4, name="lstm"), L.Dense(3, activation="softmax", name="out")], name="net")


@model
def masking_of_numbers():
    x = input_((6, 3))
    y = L.Masking(0.5, name="mask")(x)
    return functional(x, L.SimpleRNN(4, return_sequences=True, name="rnn")(y))


@model
def stacked_cells():
    x = input_((5, 3))
    return functional(x, L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_sequences=True, name="stack")(x))


@model
def time_distributed():
    x = input_((4, 6, 5, 2))
    y = L.TimeDistributed(L.Conv2D(3, 3, activation="relu"), name="conv")(x)
    y = L.TimeDistributed(L.Flatten(), name="flat")(y)
    return functional(x, L.TimeDistributed(L.Dense(2), name="dense")(y))


@model
def self_attention():
    x = input_((5, 8))
    y = L.MultiHeadAttention(2, 4, name="heads")(x, x)
    y = L.LayerNormalization(epsilon=1e-6, name="norm")(L.Add(name="add")([x, y]))
    z = L.Dense(8, name="narrow")(L.Dense(16, activation="gelu", name="wide")(y))
    return functional(x, L.Add(name="out")([y, z]))


@model
def cross_attention():
    q, v = input_((4, 6), "q"), input_((7, 5), "v")
    y = L.MultiHeadAttention(3, 2, value_dim=4, output_shape=5, use_bias=False, name="heads")(q, v)
    return functional([q, v], y)


@model
def causal_attention():
    x = input_((6, 4))
    return functional(x, L.MultiHeadAttention(2, 3, dropout=0.1, name="heads")(x, x, use_causal_mask=True))


@model
def dot_attention():
    q, v = input_((4, 6), "q"), input_((7, 6), "v")
    a = L.Attention(use_scale=True, name="dot")([q, v])
    b = L.AdditiveAttention(name="sum")([q, v])
    return functional([q, v], L.Concatenate(name="all")([a, b]))


@model
def nested_models():
    inner_in = input_((4,), "inner_in")
    inner = functional(inner_in, L.Dense(4, activation="tanh", name="dense_in")(L.BatchNormalization(name="bn_in")(inner_in)), "inner")
    x = input_((4,))
    y = inner(x)
    y = inner(y)
    tail = keras.Sequential([L.Dense(3, activation="relu", name="first"), L.Dense(2, name="second")], name="tail")
    return functional(x, tail(y))


@model
def shared_layer():
    a, b = input_((3,), "a"), input_((3,), "b")
    shared = L.Dense(4, name="shared")
    return functional([a, b], [L.Multiply(name="mul")([shared(a), shared(b)]), shared(b)])


@model
def operators():
    x = input_((4,))
    y = L.Dense(4, name="dense")(x)
    return functional(x, (x + y) * 2.0 - y[:, :4] / 3.0)


@model
def images():
    x = input_((6, 8, 3))
    y = L.Rescaling(0.5, offset=-0.25, name="scale")(x)
    y = L.Resizing(9, 5, name="resize")(y)
    return functional(x, L.CenterCrop(5, 4, name="crop")(y))


@model
def noise_and_dropout():
    x = input_((5, 4))
    y = x
    for layer in (L.Dropout(0.2, name="a"), L.SpatialDropout1D(0.2, name="b"), L.GaussianNoise(0.3, name="c"),
                  L.GaussianDropout(0.2, name="d"), L.ActivityRegularization(l1=0.01, name="f"), L.Dense(3, name="g")):
        y = layer(y)
    return functional(x, y)


@model
def einsum():
    x = input_((4, 6))
    return functional(x, L.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d", activation="relu", name="einsum")(x))


@model
def wide_and_deep():
    a, b, numbers = ids((1,), "a"), ids((3,), "b"), input_((4,), "numbers")
    parts = [L.Flatten(name="flat_a")(L.Embedding(9, 3, name="table_a")(a)),
             L.GlobalMaxPooling1D(name="max_b")(L.Embedding(9, 3, name="table_b")(b)), numbers]
    y = L.Dense(8, activation="relu", name="deep")(L.Concatenate(name="all")(parts))
    return functional([a, b, numbers], L.Dense(1, activation="sigmoid", name="click")(y))


@model
def rms_normalization():
    x = input_((4, 6))
    return functional(x, L.RMSNormalization(name="rms")(x))


@model
def grouped_attention():
    x = input_((5, 8))
    return functional(x, L.GroupQueryAttention(4, 4, 2, name="heads")(x, x))


def values_of(rule):
    u = np.random.RandomState(rule["seed"]).random_sample(rule["shape"])
    x = rule["low"] + (rule["high"] - rule["low"]) * u
    return np.floor(x).astype("int32") if rule.get("whole") else x.astype("float32")


def layer_weights(holder, path=""):
    """Yields the path of each innermost layer with weights, and the layer."""
    for layer in holder.layers:
        inner = path + layer.name
        if isinstance(layer, keras.Model):
            yield from layer_weights(layer, inner + "/")
        elif layer.weights:
            yield inner, layer


def rows_of(built):
    """Returns how many rows the table behind each input of ids has."""
    rows = {}
    for layer in built.layers:
        if isinstance(layer, L.Embedding):
            rows[layer.name] = layer.input_dim
    return min(rows.values()) if rows else 0


def write(name, built, file):
    weights = []
    for path, layer in layer_weights(built):
        values = []
        for variable in layer.weights:
            leaf = (getattr(variable, "path", None) or variable.name).split("/")[-1].split(":")[0]
            positive = leaf in ("moving_variance", "gamma")
            rule = {"seed": 1000 + len(weights), "low": 0.5 if positive else -0.5, "high": 1.5 if positive else 0.5,
                    "shape": [int(n) for n in variable.shape]}
            values.append(values_of(rule))
            weights.append({"layer": path, "name": leaf, **rule})
        layer.set_weights(values)
    inputs = []
    for i, tensor in enumerate(built.inputs):
        dtype = getattr(tensor.dtype, "name", tensor.dtype)
        shape = [BATCH] + [STEPS if str(n) in ("None", "?") else int(n) for n in tensor.shape[1:]]
        rule = {"name": tensor.name.split(":")[0], "seed": 1 + i, "low": -1, "high": 1, "shape": shape}
        if "int" in dtype:
            rule.update(low=0, high=rows_of(built), whole=True)
        inputs.append(rule)
    fed = [values_of(rule) for rule in inputs]
    predicted = built.predict(fed if len(fed) > 1 else fed[0], verbose=0)
    outputs = predicted if isinstance(predicted, (list, tuple)) else [predicted]
    file.write(json.dumps({
        "name": name, "keras": keras.__version__, "model": built.to_json(), "inputs": inputs, "weights": weights,
        "outputs": [{"shape": list(o.shape), "data": [float("%.9g" % v) for v in np.ravel(o)]} for o in outputs]}) + "\n")


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        for name, builder in MODELS.items():
            if len(sys.argv) > 2 and name not in sys.argv[2:]:
                continue
            keras.backend.clear_session()
            try:
                built = builder()
            except (AttributeError, TypeError, ValueError) as error:
                print(f"{keras.__version__} cannot make {name} here: {str(error).splitlines()[0]}")
                continue
            write(name, built, file)


main()
