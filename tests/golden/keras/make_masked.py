#!/usr/bin/env python3
"""Adds cases to masked.json, from Keras itself: losses and metrics of an output that has a mask.

  VENV2/bin/pip install tensorflow-cpu==2.15.1              VENV2/bin/python tests/golden/keras/make_masked.py
  VENV3/bin/pip install keras==3.15.1 jax    KERAS_BACKEND=jax VENV3/bin/python tests/golden/keras/make_masked.py

Cases of other versions in the file stay. The form of a case is that of outputs.json (make_outputs.py).
"""
import json
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "masked.json")
BATCH, STEPS, WORDS = 5, 4, 6
layers = keras.layers


def flat(array):
    return [float(v) for v in np.asarray(array, np.float32).reshape(-1)]


def tensor(array):
    return {"dims": list(array.shape), "dtype": str(array.dtype), "values": [v.item() for v in array.reshape(-1)]}


def run(name, loss, metrics, weighted, activation, units):
    keras.backend.clear_session()
    rng = np.random.default_rng(7)
    x = layers.Input((STEPS,), dtype="int64", name="x")
    y = layers.Dense(units, activation=activation, name="out")(layers.Embedding(WORDS, 3, mask_zero=True, name="emb")(x))
    one = keras.Model(x, y, name="masked")
    for weight in one.weights:
        weight.assign(rng.normal(0, 0.8, weight.shape).astype(np.float32))
    ids = rng.integers(0, WORDS, (BATCH, STEPS)).astype(np.int64)
    ids[0, 1:] = 0
    labels = (rng.integers(0, units, (BATCH, STEPS)).astype(np.int64) if "sparse" in loss
              else rng.normal(0, 1, (BATCH, STEPS, units)).astype(np.float32))
    weights = rng.uniform(0.2, 2, BATCH).astype(np.float32) if weighted else None
    one.compile(optimizer=keras.optimizers.SGD(1.0), loss=loss, metrics=metrics, weighted_metrics=weighted)
    model = json.loads(one.to_json())
    model.pop("compile_config", None)
    case = {"name": f"{name} {keras.__version__}", "model": model,
            "compile": {"optimizer": {"class_name": "SGD", "config": {"learning_rate": 1.0}}, "loss": loss,
                        "metrics": metrics, "weighted_metrics": weighted},
            "x": tensor(ids), "labels": [{"output": "out", **tensor(labels)}],
            "sample_weight": {"out": tensor(weights)} if weighted else {},
            "names": [getattr(w, "path", w.name).split(":")[0] for w in one.weights],
            "weights": [flat(w) for w in one.get_weights()]}
    reported = one.evaluate(ids, labels, batch_size=BATCH, sample_weight=weights, return_dict=True, verbose=0)
    case["reported"] = {key: float(value) for key, value in reported.items()}
    one.train_on_batch(ids, labels, sample_weight=weights)
    case["after"] = [flat(w) for w in one.get_weights()]
    return case


def main():
    cases = json.load(open(PATH))["cases"] if os.path.exists(PATH) else []
    cases = [case for case in cases if not case["name"].endswith(" " + keras.__version__)]
    sparse = "sparse_categorical_crossentropy"
    # Keras 3 refuses one weight for each example beside a mask for each step.
    if keras.__version__ < "3":
        cases.append(run("weighted", sparse, [], ["sparse_categorical_accuracy"], "softmax", 3))
    cases += [run("classes", sparse, ["sparse_categorical_accuracy"], [], "softmax", 3),
              run("values", "mean_squared_error", ["mean_absolute_error"], [], "linear", 2)]
    with open(PATH, "w") as out:
        json.dump({"cases": sorted(cases, key=lambda case: case["name"])}, out)


if __name__ == "__main__":
    main()
