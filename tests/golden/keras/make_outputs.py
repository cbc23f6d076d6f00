#!/usr/bin/env python3
"""Writes outputs.json from Keras itself: models with several outputs, and what Keras reports and trains.

  python3 -m venv VENV && VENV/bin/pip install keras==3.15.1 jax
  KERAS_BACKEND=jax VENV/bin/python tests/golden/keras/make_outputs.py

Each case holds the model and compile()'s arguments as Keras serialises them, examples, the labels of the outputs that
have some, weights of examples by output, start weights, what evaluate() reports on all examples as one batch, and the
weights after one step of SGD with learning rate 1, so that start minus end is the gradient of the total loss.
"""
import json
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
BATCH = 7
layers, losses = keras.layers, keras.losses


def model(dict_outputs=False):
    x = layers.Input((3,), name="x")
    h = layers.Dense(5, activation="tanh", name="h", kernel_regularizer=keras.regularizers.L2(0.03))(x)
    cls = layers.Dense(4, activation="softmax", name="cls")(h)
    reg = layers.Dense(2, name="reg", bias_regularizer=keras.regularizers.L1(0.02))(h)
    bin_ = layers.Dense(1, activation="sigmoid", name="bin")(h)
    outputs = {"kind": cls, "area": reg, "Seen": bin_} if dict_outputs else [cls, reg, bin_]
    return keras.Model(x, outputs, name="outputs")


def flat(array):
    return [float(v) for v in np.asarray(array, np.float32).reshape(-1)]


def tensor(array):
    return {"dims": list(array.shape), "dtype": str(array.dtype), "values": [v.item() for v in array.reshape(-1)]}


def labels(rng):
    return {"cls": rng.integers(0, 4, BATCH).astype(np.int64), "reg": rng.normal(0, 1, (BATCH, 2)).astype(np.float32),
            "bin": rng.integers(0, 2, (BATCH, 1)).astype(np.int64)}


def run(name, arguments, read, weighted=(), names=None):
    """`read`: the outputs that have labels, in the model's order; `names`: their keys, of a model that gives a dict."""
    keras.utils.clear_session()
    rng = np.random.default_rng(len(name))
    one = model(names is not None)
    for weight in one.weights:
        weight.assign(rng.normal(0, 0.6, weight.shape).astype(np.float32))
    x, y = rng.normal(0, 1, (BATCH, 3)).astype(np.float32), labels(rng)
    weights = {key: rng.uniform(0.2, 2, BATCH).astype(np.float32) for key in weighted}
    one.compile(optimizer=keras.optimizers.SGD(1.0), **arguments)
    case = {"name": name, "model": json.loads(one.to_json()), "compile": one.get_compile_config(), "x": tensor(x),
            "labels": [{"output": names[key] if names else key, **tensor(y[key])} for key in read],
            "sample_weight": {key: tensor(value) for key, value in weights.items()},
            "names": [w.path for w in one.weights], "weights": [flat(w) for w in one.get_weights()]}
    case["model"].pop("compile_config", None)
    given = {names[key]: y[key] for key in read} if names else [y[key] for key in read]
    sample_weight = [weights[key] for key in read] if weights else None
    case["reported"] = {key: float(value) for key, value in one.evaluate(
        x, given, batch_size=BATCH, sample_weight=sample_weight, return_dict=True, verbose=0).items()}
    one.train_on_batch(x, given, sample_weight=sample_weight)
    case["after"] = [flat(w) for w in one.get_weights()]
    return case


def main():
    by_name = {"cls": losses.SparseCategoricalCrossentropy(), "reg": losses.Huber(), "bin": "binary_crossentropy"}
    cases = [
        run("by_name", {"loss": by_name, "loss_weights": {"cls": 1.0, "reg": 2.5, "bin": 0.3},
                        "metrics": {"cls": ["accuracy"], "bin": ["accuracy", "AUC"]},
                        "weighted_metrics": {"reg": ["mean_absolute_error"]}},
            ["cls", "reg", "bin"], weighted=["cls", "reg", "bin"]),
        run("in_order", {"loss": ["sparse_categorical_crossentropy", "mse", "bce"], "loss_weights": [0.5, 1.0, 2.0],
                         "metrics": [["sparse_categorical_accuracy"], "mse", None]}, ["cls", "reg", "bin"]),
        run("one_without", {"loss": ["sparse_categorical_crossentropy", None, "bce"]}, ["cls", "bin"]),
        run("only_one", {"loss": [None, "mse", None]}, ["reg"]),
        run("dict", {"loss": {"kind": "sparse_categorical_crossentropy", "area": "mae", "Seen": "bce"},
                     "loss_weights": {"kind": 1.0, "area": 0.25, "Seen": 2.0}, "metrics": {"kind": ["accuracy"]}},
            ["bin", "reg", "cls"], names={"cls": "kind", "reg": "area", "bin": "Seen"}),
    ]
    with open(os.path.join(FOLDER, "outputs.json"), "w") as out:
        json.dump({"keras": keras.__version__, "cases": cases}, out)


if __name__ == "__main__":
    main()
