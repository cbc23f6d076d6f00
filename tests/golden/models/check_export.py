#!/usr/bin/env python3
"""Reads what `export` wrote with Keras itself: check_export.py MODEL.keras [WEIGHTS.weights.h5] [TENSORS.safetensors].

Loads the archive, puts other weights into the model and loads the file of weights, and compares each weight with the
archive's and with the tensor of its name. Runs with Keras 2.15 and 3; prints what it compared.
"""
import json
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


def main():
    model = keras.models.load_model(sys.argv[1], compile=False)
    weights = [np.array(weight) for weight in model.get_weights()]
    print(f"Keras {keras.__version__}: {sys.argv[1]}: {len(weights)} weights")
    if len(sys.argv) > 2:
        model.set_weights([weight + 1 for weight in weights])
        model.load_weights(sys.argv[2])
        for ours, theirs in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(np.array(ours), theirs)
        print(f"{sys.argv[2]}: the same weights")
    if len(sys.argv) > 3:
        tensors = tensors_of(sys.argv[3])
        assert len(tensors) == len(weights), (sorted(tensors), len(weights))
        left = list(tensors.values())
        for weight in weights:
            found = [i for i, tensor in enumerate(left) if np.array_equal(tensor, weight)]
            assert found, weight.shape
            left.pop(found[0])
        print(f"{sys.argv[3]}: the same weights")


main()
