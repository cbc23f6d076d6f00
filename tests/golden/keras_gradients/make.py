#!/usr/bin/env python3
"""Writes keras_gradients.json: losses and gradients of small models as Keras computes them.

Needs keras and jax:  python3 -m venv v && v/bin/pip install keras jax && v/bin/python make.py
"""
import json
import os

os.environ["KERAS_BACKEND"] = "jax"
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import keras
import numpy as np

keras.config.set_floatx("float64")


def array(value):
    value = np.asarray(value)
    return {"dims": list(value.shape), "values": [float(v) for v in value.reshape(-1)]}


def mlp(weights, x):
    w1, b1, w2, b2 = weights
    return keras.ops.relu(x @ w1 + b1) @ w2 + b2


def case(name, loss, label_kind, from_logits, batch, seed):
    rng = np.random.default_rng(seed)
    weights = [
        rng.normal(0, 0.5, shape) for shape in [(6, 5), (5,), (5, 4), (4,)]
    ]
    x = rng.uniform(-1, 1, (batch, 6))
    classes = rng.integers(0, 4, batch)
    labels = classes if label_kind == "sparse" else rng.dirichlet(np.ones(4), batch)

    def mean_loss(weights):
        scores = mlp(weights, x)
        y = scores if from_logits else keras.activations.softmax(scores)
        return jnp.mean(loss(labels, y, from_logits=from_logits))

    value, gradients = jax.value_and_grad(mean_loss)([jnp.asarray(w) for w in weights])
    return {
        "name": name,
        "sparse": label_kind == "sparse",
        "from_logits": from_logits,
        "x": array(x),
        "labels": array(labels),
        "weights": [array(w) for w in weights],
        "loss": float(value),
        "gradients": [array(g) for g in gradients],
    }


def main():
    sparse = keras.losses.sparse_categorical_crossentropy
    dense = keras.losses.categorical_crossentropy
    cases = []
    for batch in (1, 5):
        for from_logits in (False, True):
            kind = "logits" if from_logits else "probabilities"
            cases.append(case(f"sparse_{kind}_{batch}", sparse, "sparse", from_logits, batch, 7))
            cases.append(case(f"dense_{kind}_{batch}", dense, "dense", from_logits, batch, 8))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_gradients.json")
    with open(path, "w") as file:
        json.dump({"keras": keras.__version__, "jax": jax.__version__, "cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
