#!/usr/bin/env python3
"""Saves a model whose layers keep variables in parts of their own: make_parts.py TARGET.keras.

Run once with Keras 2.15 and once with Keras 3.15; parts.zip has both files as VERSION/m.keras, packed by
`pack_parts.py` of the same folder. The optimizer is left out, the weights are random.
"""
import sys

import keras
import numpy as np
from keras import layers as L

KERAS_3 = keras.__version__ >= "3"


def build():
    x = keras.Input((6, 4), name="x")
    y = L.RNN([L.GRUCell(3), L.LSTMCell(2), L.LSTMCell(2)], return_sequences=True)(x)
    y = L.RNN(L.SimpleRNNCell(3), return_sequences=True)(y)
    y = L.Bidirectional(L.GRU(2, return_sequences=True), merge_mode="sum", name="both")(y)
    y = L.MultiHeadAttention(2, 2)(y, y)
    if KERAS_3:
        y = L.GroupQueryAttention(2, 2, 1)(y, y)
    inner_in = keras.Input((6, 2))
    inner = keras.Model(inner_in, L.PReLU()(L.Dense(2)(inner_in)), name="inner")
    outer_in = keras.Input((6, 2))
    outer = keras.Model(outer_in, L.Add()([inner(outer_in), outer_in]), name="outer")
    y = outer(y)
    y = L.TimeDistributed(L.Dense(3, name="step"), name="steps")(y)
    z = L.SeparableConv1D(3, 2, padding="same")(y)
    y = L.Add()([y + 1.0, z])
    y = L.AdditiveAttention()([y, y])
    y = L.BatchNormalization(scale=False)(y)
    return keras.Model(x, L.Dense(2, name="out")(L.Flatten()(y)), name="parts")


def main():
    model = build()
    rng = np.random.default_rng(1)
    model.set_weights([rng.uniform(0.1, 1, weight.shape).astype("float32") for weight in model.get_weights()])
    model.save(sys.argv[1])


main()
