"""Writes optimizers.txt: 100 steps of Keras's own optimizers in float64, on gradients that are float32 numbers.

Usage: make_optimizers.py OUT_FILE, with keras 3.15 on tensorflow-cpu 2.21. float64, because Keras's float32 loses 1e-5 of
Adam's bias correction (1 - 0.999 in float32), more than the 1e-6 that the kernels are held to.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np

ELEMENTS = 67  # not a multiple of any vector length
STEPS = 100
SHOWN = (1, 2, 10, 100)
CASES = [
    ("sgd", keras.optimizers.SGD, 0.01, {}),
    ("sgd", keras.optimizers.SGD, 0.01, {"momentum": 0.9}),
    ("sgd", keras.optimizers.SGD, 0.01, {"momentum": 0.9, "nesterov": 1}),
    ("adagrad", keras.optimizers.Adagrad, 0.01, {}),
    ("adagrad", keras.optimizers.Adagrad, 0.05, {"initial_accumulator_value": 0.5, "epsilon": 1e-3}),
    ("rmsprop", keras.optimizers.RMSprop, 0.001, {}),
    ("rmsprop", keras.optimizers.RMSprop, 0.002, {"rho": 0.8, "momentum": 0.5}),
    ("rmsprop", keras.optimizers.RMSprop, 0.001, {"centered": 1, "epsilon": 1e-4}),
    ("rmsprop", keras.optimizers.RMSprop, 0.001, {"centered": 1, "momentum": 0.9}),
    ("adam", keras.optimizers.Adam, 0.001, {}),
    ("adam", keras.optimizers.Adam, 0.01, {"beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-4}),
    ("adam", keras.optimizers.Adam, 0.001, {"amsgrad": 1}),
]
FLAGS = ("nesterov", "centered", "amsgrad")


def line(values):
    return " ".join(repr(float(value)) for value in values) + "\n"


def main():
    keras.backend.set_floatx("float64")
    rng = np.random.default_rng(20240611)
    start = (rng.uniform(0.5, 1.5, ELEMENTS) * rng.choice([-1, 1], ELEMENTS)).astype(np.float32)
    # Gradients of different sizes per element, with a sign that mostly stays, as in training.
    scale = 10.0 ** rng.uniform(-3, 1, ELEMENTS)
    gradients = ((rng.normal(0, 1, (STEPS, ELEMENTS)) + 0.5) * scale).astype(np.float32)
    with open(sys.argv[1], "w") as out:
        out.write(f"{ELEMENTS} {STEPS}\n" + line(start))
        for gradient in gradients:
            out.write(line(gradient))
        for name, make, rate, parameters in CASES:
            options = {key: bool(value) if key in FLAGS else value for key, value in parameters.items()}
            optimizer = make(learning_rate=rate, **options)
            variable = keras.Variable(start.astype(np.float64), dtype="float64")
            optimizer.build([variable])
            written = "".join(f" {key} {value!r}" for key, value in sorted(parameters.items()))
            out.write(f"case {name} {rate!r} {len(parameters)}{written}\n")
            for step, gradient in enumerate(gradients, start=1):
                optimizer.apply([gradient.astype(np.float64)], [variable])
                if step in SHOWN:
                    out.write(f"step {step} " + line(np.array(variable)))


if __name__ == "__main__":
    main()
