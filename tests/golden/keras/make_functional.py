#!/usr/bin/env python3
"""Writes functional.json from Keras itself: functional models, with embeddings, and what Keras computes from them.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
  VENV/bin/python tests/golden/keras/make_functional.py

Each case holds the model as Keras serialises it, its columns by name, labels, start weights, and Keras's per-example
loss summed, metric sum, predictions, gradients of the mean loss (those of embeddings as dense ones) and the weights
after each of three optimizer steps on the same batch. "bags" holds what TensorFlow's safe_embedding_lookup_sparse
gives for ragged ids, and the gradient of sum(weights * output) by its table.
"""
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import tensorflow as tf

FOLDER = os.path.dirname(os.path.abspath(__file__))
BATCH, CLASSES, STEPS = 9, 3, 3
layers, optimizers = keras.layers, keras.optimizers


def flat(array):
    return [float(x) for x in np.asarray(array, np.float32).reshape(-1)]


def two_towers():
    a, b = layers.Input((4,), name="a"), layers.Input((2, 3), name="b")
    shared = layers.Dense(5, activation="tanh", name="shared")
    left = shared(a)
    right = shared(layers.Dense(4, name="to_four")(layers.Flatten(name="flat")(b)))
    joined = layers.Concatenate(name="joined")([right, a, left])
    out = layers.Dense(CLASSES, activation="softmax", name="out")(layers.Dropout(0.0, name="drop")(joined))
    return keras.Model([a, b], out, name="two_towers")


def joined_rows():
    a, b = layers.Input((2, 3), name="a"), layers.Input((4, 3), name="b")
    joined = layers.Concatenate(axis=1, name="joined")([a, b])
    out = layers.Dense(CLASSES, name="out")(layers.Flatten(name="flat")(joined))
    return keras.Model([b, a], layers.Activation("softmax", name="softmax")(out), name="joined_rows")


def wide_and_deep():
    ints = layers.Input((4,), name="ints")
    c1 = layers.Input((), dtype="int32", name="C1")
    c2 = layers.Input((1,), dtype="int64", name="C2")
    c3 = layers.Input((3,), dtype="int64", name="C3")
    shared = layers.Embedding(20, 3, name="shared")
    own = layers.Embedding(50, 2, name="own")
    wide = layers.Embedding(20, 1, name="wide")
    deep = layers.Concatenate(name="deep")([
        ints, shared(c1), layers.Flatten(name="f2")(shared(c2)), layers.Flatten(name="f3")(own(c3))])
    deep = layers.Dense(6, activation="relu", name="hidden")(deep)
    both = layers.Concatenate(name="both")([deep, wide(c1)])
    return keras.Model([ints, c1, c2, c3], layers.Dense(CLASSES, activation="softmax", name="out")(both),
                       name="wide_and_deep")


def columns(model, rng):
    values = {}
    for tensor in model.inputs:
        shape = (BATCH,) + tuple(tensor.shape[1:])
        if "int" in tensor.dtype:
            values[tensor.name] = rng.integers(0, 20, shape).astype(tensor.dtype)
            values[tensor.name][..., 0:1] = values[tensor.name].flat[0]  # ids that come twice
        else:
            values[tensor.name] = rng.normal(0, 1, shape).astype(np.float32)
    return values


def run(make, optimizer):
    keras.utils.clear_session()
    model = make()
    rng = np.random.default_rng(len(model.name) * 31 + ord(type(optimizer).__name__[-1]))
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape).astype(np.float32))
    x = columns(model, rng)
    y = rng.integers(0, CLASSES, BATCH).astype(np.int64)
    loss, metric = keras.losses.SparseCategoricalCrossentropy(), keras.metrics.SparseCategoricalAccuracy()
    case = {
        "name": model.name, "model": json.loads(model.to_json()), "optimizer": keras.optimizers.serialize(optimizer),
        "batch": BATCH, "classes": CLASSES, "y": [int(v) for v in y],
        "columns": [{"name": t.name, "dtype": t.dtype, "dims": list(x[t.name].shape),
                     "values": [v.item() for v in x[t.name].reshape(-1)]} for t in model.inputs],
        "names": [w.path for w in model.weights], "shapes": [list(w.shape) for w in model.weights],
        "weights": [flat(w) for w in model.get_weights()],
    }

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            prediction = model([x[t.name] for t in model.inputs], training=True)
            mean = loss(y, prediction)
        return prediction, mean, tape.gradient(mean, [v.value for v in model.trainable_variables])

    prediction, mean, gradients = step()
    metric.update_state(y, prediction)
    case["predictions"] = flat(prediction)
    case["loss_sum"] = float(mean) * BATCH
    case["metric_sum"] = float(metric.result()) * BATCH
    case["gradients"] = [flat(tf.convert_to_tensor(g)) for g in gradients]
    case["after_step"] = []
    for _ in range(STEPS):
        # As dense ones, where a row's gradients are merged: Keras 3 squares those of ids that come twice one by one in
        # Adagrad, which TensorFlow's own sparse kernels and Keras 2 did not.
        gradients = [tf.convert_to_tensor(g) for g in step()[2]]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        case["after_step"].append([flat(w) for w in model.get_weights()])
    return case


def bag(combiner):
    rng = np.random.default_rng(ord(combiner[1]))
    table = tf.Variable(rng.normal(0, 1, (12, 3)).astype(np.float32))
    ids = np.array([[3, 5, 3, -1], [-1, -1, -1, -1], [11, -1, 0, -1], [7, 7, 7, 2], [-1, -1, -1, 4]], np.int64)
    weights = rng.normal(0, 1, (len(ids), 3)).astype(np.float32)
    indices = np.argwhere(ids >= 0)
    sparse = tf.SparseTensor(indices, ids[ids >= 0], ids.shape)
    with tf.GradientTape() as tape:
        output = tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner=combiner)
        total = tf.reduce_sum(output * weights)
    gradient = tf.convert_to_tensor(tape.gradient(total, table))
    return {"combiner": combiner, "table": flat(table), "rows": 12, "dim": 3, "ids": ids.reshape(-1).tolist(),
            "dims": list(ids.shape), "weights": flat(weights), "output": flat(output), "gradient": flat(gradient)}


def main():
    cases = [run(two_towers, optimizers.SGD(0.1, momentum=0.9)), run(joined_rows, optimizers.Adam(0.01)),
             run(wide_and_deep, optimizers.SGD(0.2)), run(wide_and_deep, optimizers.Adagrad(0.1))]
    bags = [bag(combiner) for combiner in ("sum", "mean", "sqrtn")]
    with open(os.path.join(FOLDER, "functional.json"), "w") as out:
        json.dump({"tensorflow": tf.__version__, "keras": keras.__version__, "cases": cases, "bags": bags}, out)


if __name__ == "__main__":
    main()
