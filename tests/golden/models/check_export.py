#!/usr/bin/env python3
"""Reads what `export` wrote with Keras itself: check_export.py DIRECTORY [GOLDEN.keras].

DIRECTORY has m.keras, m.weights.h5 and m.safetensors, and m.index of a checkpoint, which Keras on TensorFlow reads; the
test ExportsOfSavedModels prints such directories. Loads the archive, puts other weights into the model, loads each of
the other files and compares the weights, with those of GOLDEN.keras too. Runs with Keras 2.15 and 3.
"""
import json
import os
import struct
import sys

import keras
import numpy as np


def tensors_of(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
    }


def weights_of(model):
    return [np.array(weight) for weight in model.get_weights()]


def expect(model, weights, what):
    for ours, theirs in zip(weights_of(model), weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    print(f"  {what}: the same {len(weights)} weights")


def check_checkpoint(model, weights, prefix):
    import tensorflow as tf

    def other():
        model.set_weights([weight + 1 for weight in weights])

    if keras.__version__ < "3":
        other()
        # The counter of saves belongs to a Checkpoint, which this call has none of.
        model.load_weights(prefix).assert_existing_objects_matched()
        expect(model, weights, "load_weights(prefix).assert_existing_objects_matched()")
    elif any(isinstance(getattr(layer, "cell", None), keras.layers.StackedRNNCells) for layer in model.layers):
        print("  not restored: Keras 3 does not track stacked cells")
        return
    other()
    tf.train.Checkpoint(model=model).restore(prefix).assert_consumed()
    expect(model, weights, "Checkpoint(model=model).restore(prefix).assert_consumed()")
    other()
    tf.train.Checkpoint(model).restore(prefix).expect_partial()
    expect(model, weights, "Checkpoint(model).restore(prefix)")


def main():
    folder = sys.argv[1]
    model = keras.models.load_model(os.path.join(folder, "m.keras"), compile=False)
    weights = weights_of(model)
    print(f"Keras {keras.__version__}: {folder}: m.keras has {len(weights)} weights")
    if len(sys.argv) > 2:
        expect(keras.models.load_model(sys.argv[2], compile=False), weights, sys.argv[2])
    model.set_weights([weight + 1 for weight in weights])
    model.load_weights(os.path.join(folder, "m.weights.h5"))
    expect(model, weights, "m.weights.h5")
    left = list(tensors_of(os.path.join(folder, "m.safetensors")).values())
    assert len(left) == len(weights), (len(left), len(weights))
    for weight in weights:
        found = [i for i, tensor in enumerate(left) if np.array_equal(tensor, weight)]
        assert found, weight.shape
        left.pop(found[0])
    print("  m.safetensors: the same weights")
    prefix = os.path.join(folder, "m")
    if os.path.exists(prefix + ".index"):
        check_checkpoint(model, weights, prefix)


main()
