"""Writes schedules.json: learning rates of Keras's own schedules in float64, beside their serialised forms.

Usage: make_schedules.py OUT_FILE, with keras 3.15 on tensorflow-cpu 2.21. Keras computes with the type of the first rate,
and takes plain Python numbers for float32: their own attributes are made numpy's float64 first.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np

STEPS = [0, 1, 2, 3, 4, 5, 7, 10, 11, 19, 20, 21, 29, 30, 31, 49, 50, 51, 69, 70, 71, 99, 100, 101, 149, 150, 151, 310, 1000,
         123456]
S = keras.optimizers.schedules
SCHEDULES = [
    S.ExponentialDecay(0.1, 10, 0.5),
    S.ExponentialDecay(0.1, 10, 0.9, staircase=True),
    S.PiecewiseConstantDecay([10, 50, 100], [1.0, 0.5, 0.25, 0.125]),
    S.PolynomialDecay(0.1, 50),
    S.PolynomialDecay(0.1, 50, end_learning_rate=0.01, power=2.0),
    S.PolynomialDecay(0.1, 50, end_learning_rate=0.01, power=0.5, cycle=True),
    S.InverseTimeDecay(0.1, 10, 0.5),
    S.InverseTimeDecay(0.1, 10, 0.5, staircase=True),
    S.CosineDecay(0.1, 100),
    S.CosineDecay(0.1, 100, alpha=0.1),
    S.CosineDecay(0.0, 100, alpha=0.05, warmup_target=0.2, warmup_steps=20),
    S.CosineDecay(0.01, 100, warmup_target=0.2, warmup_steps=0),
    S.CosineDecayRestarts(0.1, 10),
    S.CosineDecayRestarts(0.1, 10, t_mul=1.0, m_mul=0.9),
    S.CosineDecayRestarts(0.1, 20, t_mul=1.5, m_mul=0.8, alpha=0.1),
]


def exact(value):
    if isinstance(value, list):
        return [np.float64(item) if isinstance(item, float) else item for item in value]
    return np.float64(value) if type(value) is float else value


def main():
    keras.backend.set_floatx("float64")
    cases = []
    for schedule in SCHEDULES:
        form = S.serialize(schedule)
        for name, value in list(vars(schedule).items()):
            setattr(schedule, name, exact(value))
        cases.append({"schedule": form, "rates": [[step, float(schedule(np.int64(step)))] for step in STEPS]})
    with open(sys.argv[1], "w") as out:
        json.dump(cases, out, indent=None)
        out.write("\n")


if __name__ == "__main__":
    main()
