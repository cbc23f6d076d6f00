"""Makes gradients.json: TensorFlow's gradients where conventions differ (ties, bounds, zeros).

Usage: make.py GRADS_TF OUT, where GRADS_TF is what `make.py --tensorflow GRADS_TF` wrote where TensorFlow is installed. The
file holds, by the name of a case, the gradient of the sum of its result with respect to each input, null for none.
JSON has no NaN and no infinity, so the second step writes them as strings. The functions and inputs are those of
tests/device/gradient_convention_test.cc, which names each case by TensorFlow's functions.
"""

import json
import math
import sys

INF = float("inf")


def cases(tf):
    """Returns (function, inputs...) by the name of the case."""
    return {
        "relu(0)": (tf.nn.relu, [0.0]),
        "relu6(0,6)": (tf.nn.relu6, [0.0, 6.0]),
        "abs(0)": (tf.abs, [0.0]),
        "sqrt(0)": (tf.sqrt, [0.0]),
        "pow(x,2) at 0": (lambda x: tf.pow(x, 2.0), [0.0]),
        "pow(x,0.5) at 0": (lambda x: tf.pow(x, 0.5), [0.0]),
        "pow(x,0) at 0": (lambda x: tf.pow(x, 0.0), [0.0]),
        "pow(0,y) dy": (lambda y: tf.pow(0.0, y), [2.0, 0.0, -1.0]),
        "pow(-2,y) dy y=2": (lambda y: tf.pow(-2.0, y), [2.0]),
        "pow(x,3) at -2": (lambda x: tf.pow(x, 3.0), [-2.0]),
        "max(x,y) tie": (tf.maximum, [1.0], [1.0]),
        "min(x,y) tie": (tf.minimum, [1.0], [1.0]),
        "max(x,y) tie scalar": (tf.maximum, [1.0, 1.0], 1.0),
        "reduce_max ties": (tf.reduce_max, [1.0, 3.0, 3.0, 3.0]),
        "reduce_min ties": (tf.reduce_min, [1.0, 1.0, 3.0]),
        "reduce_prod zeros": (tf.reduce_prod, [2.0, 0.0, 3.0]),
        "reduce_prod two zeros": (tf.reduce_prod, [2.0, 0.0, 0.0]),
        "cumprod zero": (tf.math.cumprod, [2.0, 0.0, 3.0]),
        "clip at bounds": (lambda x: tf.clip_by_value(x, -1.0, 1.0), [-1.0, 1.0, 0.0, 2.0, -2.0]),
        "where NaN branch": (lambda x: tf.where(x > 0, tf.math.log(x), tf.zeros_like(x)), [0.0, -1.0, 2.0]),
        "where div0": (lambda x: tf.where(x > 0, 1 / x, x), [0.0, 2.0]),
        "log(0)": (tf.math.log, [0.0]),
        "softplus": (tf.nn.softplus, [100.0, -100.0, 0.0]),
        "elu(0)": (tf.nn.elu, [0.0]),
        "selu(0)": (tf.nn.selu, [0.0]),
        "leaky(0)": (lambda x: tf.nn.leaky_relu(x, 0.2), [0.0]),
        "norm at 0": (tf.norm, [0.0, 0.0]),
        "l2_normalize at 0": (lambda x: tf.reduce_sum(tf.nn.l2_normalize(x, -1) * tf.constant([1.0, 2.0])), [0.0, 0.0]),
        "std at const": (tf.math.reduce_std, [2.0, 2.0]),
        "topk values": (lambda x: tf.math.top_k(x, 2).values, [3.0, 3.0, 3.0, 1.0]),
        "sort ties": (lambda x: tf.sort(x) * tf.constant([1.0, 2.0, 3.0]), [2.0, 2.0, 2.0]),
        "maxpool ties": (lambda x: tf.nn.max_pool2d(tf.reshape(x, (1, 2, 2, 1)), 2, 2, "VALID"), [5.0] * 4),
        "sign": (tf.sign, [1.0]),
        "floor": (tf.floor, [1.5]),
        "round": (tf.round, [1.5]),
        "mod x": (lambda x: tf.math.floormod(x, 3.0), [4.0]),
        "mod y": (lambda y: tf.math.floormod(7.0, y), [3.0]),
        "logsumexp -inf": (tf.reduce_logsumexp, [-INF, -INF]),
        "logsumexp mixed": (tf.reduce_logsumexp, [-INF, 0.0]),
        "softmax -inf row": (lambda x: tf.nn.softmax(x) * tf.constant([1.0, 2.0]), [-INF, -INF]),
        "gather repeated": (lambda x: tf.gather(x, [0, 0, 1]), [1.0, 2.0, 3.0]),
        "scatter_nd update": (lambda x, u: tf.tensor_scatter_nd_update(x, [[1], [1]], u), [1.0, 2.0, 3.0], [5.0, 6.0]),
        "scatter_nd max tie": (lambda x, u: tf.tensor_scatter_nd_max(x, [[1]], u), [1.0, 2.0], [2.0]),
        "bce logits": (lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=[1.0], logits=x), [0.0]),
        "xlogy(0,0)": (lambda x: tf.math.xlogy(0.0, x), [0.0]),
        "hard_sigmoid kink": (lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0), [-2.5, 2.5]),
        "erf": (tf.math.erf, [0.0, 5.0]),
        "atan2(0,0)": (tf.atan2, [0.0], [0.0]),
        "x/0": (lambda x, y: x / y, [1.0], [0.0]),
        "div_no_nan": (tf.math.divide_no_nan, [1.0], [0.0]),
        "huber kink": (lambda x: tf.where(tf.abs(x) <= 1.0, 0.5 * x * x, tf.abs(x) - 0.5), [1.0, -1.0]),
        "argmax": (lambda x: tf.cast(tf.argmax(x), "float32"), [1.0, 2.0]),
        "cast int": (lambda x: tf.cast(tf.cast(x, "int32"), "float32"), [1.5]),
        "cosh log big": (lambda x: tf.math.log(tf.cosh(x)), [100.0]),
    }


def gradients(target):
    import tensorflow as tf

    results = {}
    for name, (function, *inputs) in cases(tf).items():
        variables = [tf.Variable(tf.constant(each, "float32")) for each in inputs]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(*variables))
        found = tape.gradient(loss, variables)
        results[name] = [None if each is None else tf.convert_to_tensor(each).numpy().tolist() for each in found]
    with open(target, "w") as file:
        json.dump(results, file)


def portable(value):
    if isinstance(value, list):
        return [portable(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def main():
    if sys.argv[1] == "--tensorflow":
        gradients(sys.argv[2])
        return
    with open(sys.argv[1]) as source:
        results = json.load(source)
    with open(sys.argv[2], "w") as target:
        lines = [f"{json.dumps(name)}: {json.dumps(portable(value))}" for name, value in results.items()]
        target.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
