"""Writes optimizers.txt: 100 steps of Keras's own optimizers in float64, on gradients that are float32 numbers.

Usage: make_optimizers.py OUT_FILE, with keras 3.15 on tensorflow-cpu 2.21. float64, for the 1e-6
that the kernels are held to. Keras casts plain Python numbers by way of float32, also to float64, so its hyper-parameters
are made numpy's float64 first. The decay rates beta_1 and beta_2 stay plain: their rounding to float32 moves Adam's bias
correction by 1e-5 in every training with Keras, and ours follows it.

Where TensorFlow's older kernels differ from Keras, the expectation is from those kernels (tf.raw_ops), and where there is
neither, from the formula in numpy: RMSprop with epsilon beside the root is that of TensorFlow's OptimizerV2 without
momentum, row-wise Adagrad is that of FBGEMM (the mean of the squares of a row) with either epsilon.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf

ROWS, WIDTH = 6, 11
ELEMENTS = ROWS * WIDTH  # not a multiple of any vector length
STEPS = 100
SHOWN = (1, 2, 10, 100)
FLAGS = ("nesterov", "centered", "amsgrad", "use_ema")

SGD, Adagrad, RMSprop = keras.optimizers.SGD, keras.optimizers.Adagrad, keras.optimizers.RMSprop
Adam, Adamax, Nadam = keras.optimizers.Adam, keras.optimizers.Adamax, keras.optimizers.Nadam
Adadelta, Ftrl = keras.optimizers.Adadelta, keras.optimizers.Ftrl


class TfMomentum:
    """ResourceApplyMomentum: the slot sums gradients."""

    def __init__(self, learning_rate, momentum, momentum_of_gradients, nesterov=False):
        assert momentum_of_gradients == 1
        self.rate, self.momentum, self.nesterov = learning_rate, momentum, nesterov

    def run(self, start, gradients):
        value, slot = tf.Variable(start), tf.Variable(np.zeros_like(start))
        for gradient in gradients:
            tf.raw_ops.ResourceApplyMomentum(var=value.handle, accum=slot.handle, lr=np.float64(self.rate), grad=gradient,
                                             momentum=np.float64(self.momentum), use_nesterov=bool(self.nesterov))
            yield value.numpy()


class TfAdagrad:
    """ResourceApplyAdagradV2: epsilon beside the root."""

    def __init__(self, learning_rate, epsilon_outside_root, epsilon=1e-7, initial_accumulator_value=0.1):
        assert epsilon_outside_root == 1
        self.rate, self.epsilon, self.first = learning_rate, epsilon, initial_accumulator_value

    def run(self, start, gradients):
        value, slot = tf.Variable(start), tf.Variable(np.full_like(start, self.first))
        for gradient in gradients:
            tf.raw_ops.ResourceApplyAdagradV2(var=value.handle, accum=slot.handle, lr=np.float64(self.rate),
                                              epsilon=np.float64(self.epsilon), grad=gradient)
            yield value.numpy()


class OldRmsprop:
    """OptimizerV2's RMSprop without momentum."""

    def __init__(self, learning_rate, epsilon_outside_root, rho=0.9, epsilon=1e-7, centered=0):
        assert epsilon_outside_root == 1
        self.rate, self.rho, self.epsilon, self.centered = learning_rate, rho, epsilon, centered

    def run(self, start, gradients):
        value, square, mean = start.copy(), np.zeros_like(start), np.zeros_like(start)
        for gradient in gradients:
            square = self.rho * square + (1 - self.rho) * gradient**2
            mean = self.rho * mean + (1 - self.rho) * gradient
            variance = square - mean**2 if self.centered else square
            value = value - self.rate * gradient / (np.sqrt(variance) + self.epsilon)
            yield value


class RowwiseAdagrad:
    """FBGEMM's exact row-wise Adagrad."""

    def __init__(self, learning_rate, epsilon=1e-7, initial_accumulator_value=0.1, epsilon_outside_root=0):
        self.rate, self.epsilon, self.first = learning_rate, epsilon, initial_accumulator_value
        self.outside = epsilon_outside_root

    def run(self, start, gradients):
        value, slot = start.reshape(ROWS, WIDTH).copy(), np.full((ROWS, 1), self.first)
        for gradient in gradients:
            gradient = gradient.reshape(ROWS, WIDTH)
            slot = slot + np.mean(gradient**2, axis=1, keepdims=True)
            root = np.sqrt(slot) + self.epsilon if self.outside else np.sqrt(slot + self.epsilon)
            value = value - self.rate * gradient / root
            yield value.reshape(-1)


L1, L2 = "l1_regularization_strength", "l2_regularization_strength"
SHRINKAGE = "l2_shrinkage_regularization_strength"
# Every step would round each value to float32 three times a step, which alone adds up to 1e-6 in 100 steps.
OVERWRITE = {"use_ema": 1, "ema_momentum": 0.9, "ema_overwrite_frequency": 5}
CASES = [
    ("sgd", SGD, 0.01, {}),
    ("sgd", SGD, 0.01, {"momentum": 0.9}),
    ("sgd", SGD, 0.01, {"momentum": 0.9, "nesterov": 1}),
    ("sgd", TfMomentum, 0.01, {"momentum": 0.9, "momentum_of_gradients": 1}),
    ("sgd", TfMomentum, 0.01, {"momentum": 0.9, "momentum_of_gradients": 1, "nesterov": 1}),
    ("adagrad", Adagrad, 0.01, {}),
    ("adagrad", Adagrad, 0.05, {"initial_accumulator_value": 0.5, "epsilon": 1e-3}),
    ("adagrad", TfAdagrad, 0.01, {"epsilon": 1e-2, "epsilon_outside_root": 1}),
    ("rowwise_adagrad", RowwiseAdagrad, 0.01, {}),
    ("rowwise_adagrad", RowwiseAdagrad, 0.02, {"epsilon": 1e-2, "epsilon_outside_root": 1}),
    ("rmsprop", RMSprop, 0.001, {}),
    ("rmsprop", RMSprop, 0.002, {"rho": 0.8, "momentum": 0.5}),
    ("rmsprop", RMSprop, 0.001, {"centered": 1, "epsilon": 1e-4}),
    ("rmsprop", RMSprop, 0.001, {"centered": 1, "momentum": 0.9}),
    ("rmsprop", OldRmsprop, 0.001, {"epsilon": 1e-3, "epsilon_outside_root": 1}),
    ("rmsprop", OldRmsprop, 0.001, {"centered": 1, "epsilon": 1e-3, "epsilon_outside_root": 1}),
    ("adam", Adam, 0.001, {}),
    ("adam", Adam, 0.01, {"beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-4}),
    ("adam", Adam, 0.001, {"amsgrad": 1}),
    ("adam", keras.optimizers.AdamW, 0.01, {"weight_decay": 0.004}),
    ("adamax", Adamax, 0.001, {}),
    ("adamax", Adamax, 0.01, {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}),
    ("nadam", Nadam, 0.001, {}),
    ("nadam", Nadam, 0.01, {"beta_1": 0.95, "beta_2": 0.99, "epsilon": 1e-4}),
    ("adadelta", Adadelta, 1.0, {}),
    ("adadelta", Adadelta, 0.5, {"rho": 0.8, "epsilon": 1e-4}),
    ("ftrl", Ftrl, 0.05, {}),
    ("ftrl", Ftrl, 0.05, {L1: 0.1, L2: 0.02, SHRINKAGE: 0.01, "beta": 0.3}),
    ("ftrl", Ftrl, 0.1, {"learning_rate_power": -0.7, "initial_accumulator_value": 0.5, L1: 0.5}),
    ("ftrl", Ftrl, 0.001, {"learning_rate_power": 0.0, SHRINKAGE: 0.5}),
    ("sgd", SGD, 0.01, {"momentum": 0.9, "weight_decay": 0.1}),
    ("sgd", SGD, 0.01, OVERWRITE),
    ("adagrad", Adagrad, 0.01, {"weight_decay": 0.1, "use_ema": 1, "ema_momentum": 0.5, "ema_overwrite_frequency": 3}),
    ("rmsprop", RMSprop, 0.001, {"momentum": 0.9, "weight_decay": 0.5, **OVERWRITE}),
    ("adam", Adam, 0.001, {"amsgrad": 1, **OVERWRITE}),
    ("ftrl", Ftrl, 0.05, {"weight_decay": 0.2, SHRINKAGE: 0.01, **OVERWRITE}),
]


class OfKeras:
    def __init__(self, make, learning_rate, parameters):
        options = {key: bool(value) if key in FLAGS else value for key, value in parameters.items()}
        self.optimizer = make(learning_rate=learning_rate, **options)
        for name, value in list(vars(self.optimizer).items()):
            if type(value) is float and not name.startswith("beta_"):
                setattr(self.optimizer, name, np.float64(value))

    def run(self, start, gradients):
        variable = keras.Variable(start, dtype="float64")
        self.optimizer.build([variable])
        for gradient in gradients:
            self.optimizer.apply([gradient], [variable])
            yield np.array(variable)


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
        out.write(f"{ROWS} {WIDTH} {STEPS}\n" + line(start))
        for gradient in gradients:
            out.write(line(gradient))
        for name, make, rate, parameters in CASES:
            of_keras = make.__module__.startswith("keras")
            optimizer = OfKeras(make, rate, parameters) if of_keras else make(rate, **parameters)
            written = "".join(f" {key} {value!r}" for key, value in sorted(parameters.items()))
            out.write(f"case {name} {rate!r} {len(parameters)}{written}\n")
            values = optimizer.run(start.astype(np.float64), gradients.astype(np.float64))
            for step, value in enumerate(values, start=1):
                if step in SHOWN:
                    out.write(f"step {step} " + line(value))


if __name__ == "__main__":
    main()
