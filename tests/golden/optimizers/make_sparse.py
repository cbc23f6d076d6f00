"""Writes sparse.txt: 30 steps of TensorFlow's and Keras's sparse updates in float64, on gradients that are float32 numbers.

Usage: make_sparse.py OUT_FILE, with keras 3.15 on tensorflow-cpu 2.21 (float64 as in make_optimizers.py). Each step brings
gradients of some rows; ids repeat and come in any order. The oracles:
  dense_exact       Keras's optimizer, given tf.IndexedSlices. (Each row once with the sum of its gradients, as tf.keras's
                    optimizers have it; Keras 3 itself adds up the squares of what comes for one row, not its gradients.)
  lazy              TensorFlow's sparse kernels (tf.raw_ops.ResourceSparseApply...), given each row once with the sum of its
                    gradients, as tf.keras's OptimizerV2 calls them; where there is none, Keras's optimizer of a variable that
                    is one row, told the step.
  lazy_compensated  Keras's optimizer, given tf.IndexedSlices: the last step has all rows, and what they missed was made up.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf

ROWS, WIDTH = 8, 5
STEPS = 30
SHOWN = (1, 2, 10, 30)
FLAGS = ("nesterov", "centered", "amsgrad", "use_ema")

K = keras.optimizers
L1, L2 = "l1_regularization_strength", "l2_regularization_strength"
SHRINKAGE = "l2_shrinkage_regularization_strength"


def make_keras(make, rate, parameters):
    options = {key: bool(value) if key in FLAGS else value for key, value in parameters.items()}
    optimizer = make(learning_rate=rate, **options)
    # Keras casts plain Python numbers by way of float32; of beta_1 and beta_2, ours follows it.
    for name, value in list(vars(optimizer).items()):
        if type(value) is float and not name.startswith("beta_"):
            setattr(optimizer, name, np.float64(value))
    return optimizer


def indexed_slices(start, steps, make, rate, parameters):
    variable = keras.Variable(start, dtype="float64")
    optimizer = make_keras(make, rate, parameters)
    optimizer.build([variable])
    for ids, gradients in steps:
        rows, sums = merged(ids, gradients)
        optimizer.apply([tf.IndexedSlices(sums, rows, tf.constant(start.shape))], [variable])
        yield variable.numpy()


def merged(ids, gradients):
    distinct, places = tf.unique(ids)
    return distinct, tf.math.unsorted_segment_sum(gradients, places, tf.shape(distinct)[0])


def keras_by_row(start, steps, make, rate, parameters):
    rows = [keras.Variable(row, dtype="float64") for row in start]
    optimizers = [make_keras(make, rate, parameters) for _ in rows]
    for row, optimizer in zip(rows, optimizers):
        optimizer.build([row])
    product = 1.0  # of Nadam's momenta, which Keras keeps in a variable
    for step, (ids, gradients) in enumerate(steps):
        for row, gradient in zip(*merged(ids, gradients)):
            optimizer = optimizers[int(row)]
            optimizer._iterations.assign(step)
            if make is K.Nadam:
                optimizer._u_product.assign(product)
            optimizer.apply([gradient], [rows[int(row)]])
        if make is K.Nadam:
            product *= optimizers[0].beta_1 * (1 - 0.5 * 0.96 ** (step + 1))
        yield np.array([row.numpy() for row in rows])


class TfKernel:
    """A raw op, the start values of its slots, and what it is told beside variable, slots and gradients."""

    def __init__(self, op, slots, **arguments):
        self.op, self.slots = op, slots
        self.arguments = {key: value if isinstance(value, bool) else np.float64(value) for key, value in arguments.items()}

    def run(self, start, steps):
        variable = tf.Variable(start)
        slots = {name: tf.Variable(np.full_like(start, value)) for name, value in self.slots.items()}
        for ids, gradients in steps:
            rows, sums = merged(ids, gradients)
            self.op(var=variable.handle, grad=sums, indices=rows, **{name: slot.handle for name, slot in slots.items()},
                    **self.arguments)
            yield variable.numpy()


R = tf.raw_ops
MOMENTUM = {"momentum": 0.9}
DENSE = [
    ("sgd", K.SGD, 0.01, {}),
    ("sgd", K.SGD, 0.01, MOMENTUM),
    ("sgd", K.SGD, 0.01, {**MOMENTUM, "nesterov": 1}),
    ("sgd", K.SGD, 0.01, {**MOMENTUM, "weight_decay": 0.1}),
    ("sgd", K.SGD, 0.01, {**MOMENTUM, "use_ema": 1, "ema_momentum": 0.9, "ema_overwrite_frequency": 5}),
    ("adagrad", K.Adagrad, 0.01, {}),
    ("adagrad", K.Adagrad, 0.01, {"weight_decay": 0.1}),
    ("rmsprop", K.RMSprop, 0.001, {}),
    ("rmsprop", K.RMSprop, 0.001, MOMENTUM),
    ("rmsprop", K.RMSprop, 0.001, {"centered": 1, **MOMENTUM, "epsilon": 1e-4}),
    ("adam", K.Adam, 0.001, {}),
    ("adam", K.Adam, 0.001, {"amsgrad": 1}),
    ("adam", K.AdamW, 0.01, {"weight_decay": 0.004}),
    ("adamax", K.Adamax, 0.001, {}),
    ("nadam", K.Nadam, 0.001, {}),
    ("adadelta", K.Adadelta, 1.0, {}),
    ("ftrl", K.Ftrl, 0.05, {}),
    ("ftrl", K.Ftrl, 0.05, {L1: 0.01, L2: 0.02, SHRINKAGE: 0.3, "beta": 0.3}),
]
# Of these the closed form is that of Keras's own steps.
COMPENSATED = [case for case in DENSE if case[0] not in ("adam", "adamax", "nadam") and "ema_momentum" not in case[3]]
BY_ROW = [
    ("sgd", K.SGD, 0.01, {}),
    ("sgd", K.SGD, 0.01, {**MOMENTUM, "weight_decay": 0.1}),
    ("adagrad", K.Adagrad, 0.01, {}),
    ("adam", K.Adam, 0.001, {}),
    ("adam", K.Adam, 0.001, {"amsgrad": 1}),
    ("adam", K.AdamW, 0.01, {"weight_decay": 0.004}),
    ("adamax", K.Adamax, 0.001, {}),
    ("nadam", K.Nadam, 0.001, {}),
]
RMS = {"rho": 0.9, "lr": 0.001, "momentum": 0.9, "epsilon": 1e-4}
OF_KERNELS = [
    ("sgd", 0.01, MOMENTUM, TfKernel(R.ResourceSparseApplyKerasMomentum, {"accum": 0}, lr=0.01, momentum=0.9)),
    ("sgd", 0.01, {**MOMENTUM, "nesterov": 1},
     TfKernel(R.ResourceSparseApplyKerasMomentum, {"accum": 0}, lr=0.01, momentum=0.9, use_nesterov=True)),
    ("sgd", 0.01, {**MOMENTUM, "momentum_of_gradients": 1},
     TfKernel(R.ResourceSparseApplyMomentum, {"accum": 0}, lr=0.01, momentum=0.9)),
    ("adagrad", 0.01, {"epsilon": 1e-2, "epsilon_outside_root": 1},
     TfKernel(R.ResourceSparseApplyAdagradV2, {"accum": 0.1}, lr=0.01, epsilon=1e-2)),
    ("rmsprop", 0.001, {**MOMENTUM, "epsilon": 1e-4}, TfKernel(R.ResourceSparseApplyRMSProp, {"ms": 0, "mom": 0}, **RMS)),
    ("rmsprop", 0.001, {"centered": 1, **MOMENTUM, "epsilon": 1e-4},
     TfKernel(R.ResourceSparseApplyCenteredRMSProp, {"mg": 0, "ms": 0, "mom": 0}, **RMS)),
    ("adadelta", 1.0, {"epsilon": 1e-4},
     TfKernel(R.ResourceSparseApplyAdadelta, {"accum": 0, "accum_update": 0}, lr=1.0, rho=0.95, epsilon=1e-4)),
    ("ftrl", 0.05, {L1: 0.01, L2: 0.02, SHRINKAGE: 0.3},
     TfKernel(R.ResourceSparseApplyFtrlV2, {"accum": 0.1, "linear": 0}, lr=0.05, l1=0.01, l2=0.02, l2_shrinkage=0.3,
              lr_power=-0.5)),
]


def line(values):
    return " ".join(repr(float(value)) for value in np.ravel(values)) + "\n"


def write_case(out, mode, name, rate, parameters, values, shown):
    written = "".join(f" {key} {value!r}" for key, value in sorted(parameters.items()))
    out.write(f"case {name} {mode} {rate!r} {len(parameters)}{written}\n")
    for step, value in enumerate(values, start=1):
        if step in shown:
            out.write(f"step {step} " + line(value))


def main():
    keras.backend.set_floatx("float64")
    rng = np.random.default_rng(20250311)
    start = (rng.uniform(0.5, 1.5, (ROWS, WIDTH)) * rng.choice([-1, 1], (ROWS, WIDTH))).astype(np.float32)
    # Sizes differ by row and by element; a row of an even number is rare.
    scale = 10.0 ** rng.uniform(-2, 1, (ROWS, WIDTH))
    often = np.array([0.04, 0.21] * (ROWS // 2))
    steps = []
    for step in range(STEPS):
        ids = rng.permutation(ROWS) if step == STEPS - 1 else rng.choice(ROWS, rng.integers(0, 6), p=often)
        gradients = ((rng.normal(0, 1, (len(ids), WIDTH)) + 0.5) * scale[ids]).astype(np.float32)
        steps.append((ids.astype(np.int64), gradients.astype(np.float64)))
    start64 = start.astype(np.float64)
    with open(sys.argv[1], "w") as out:
        out.write(f"{ROWS} {WIDTH} {STEPS}\n" + line(start))
        for ids, gradients in steps:
            out.write(f"{len(ids)} " + " ".join(str(row) for row in ids) + "\n" + line(gradients))
        for name, make, rate, parameters in DENSE:
            write_case(out, "dense_exact", name, rate, parameters, indexed_slices(start64, steps, make, rate, parameters), SHOWN)
        for name, make, rate, parameters in BY_ROW:
            write_case(out, "lazy", name, rate, parameters, keras_by_row(start64, steps, make, rate, parameters), SHOWN)
        for name, rate, parameters, kernel in OF_KERNELS:
            write_case(out, "lazy", name, rate, parameters, kernel.run(start64, steps), SHOWN)
        for name, make, rate, parameters in COMPENSATED:
            write_case(out, "lazy_compensated", name, rate, parameters, indexed_slices(start64, steps, make, rate, parameters),
                       (STEPS,))


if __name__ == "__main__":
    main()
