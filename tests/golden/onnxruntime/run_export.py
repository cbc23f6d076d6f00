#!/usr/bin/env python3
"""Runs exported models with onnxruntime and writes what they predict to predictions.json.

  python3 -m venv VENV && VENV/bin/pip install onnxruntime==1.32.0 numpy
  build/dev/tests/model_test --gtest_filter='OnnxExport.*'      # writes the models; the tests print their paths
  VENV/bin/python tests/golden/onnxruntime/run_export.py MODEL.onnx IMAGES.onnx

The inputs are those of the case "mnist_mlp_small" of tests/golden/keras/training.json, and of "digits" of images.json,
alone and as one batch.
"""
import json
import os
import sys

import numpy as np
import onnxruntime

GOLDEN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def predict(path, file, name, dims):
    with open(os.path.join(GOLDEN, "keras", file)) as golden:
        case = next(c for c in json.load(golden)["cases"] if c["name"] == name)
    x = np.array(case["x"], np.float32).reshape(dims(case))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), session.get_outputs()
    assert [i.name for i in inputs] == ["x"] and len(outputs) == 1, "one input, one output"
    assert isinstance(inputs[0].shape[0], str), "the batch is symbolic"
    whole = session.run(None, {"x": x})[0]
    one_by_one = np.concatenate([session.run(None, {"x": x[i:i + 1]})[0] for i in range(len(x))])
    np.testing.assert_allclose(whole, one_by_one, rtol=1e-5)
    np.testing.assert_allclose(whole.reshape(-1), case["predictions"], rtol=1e-5)
    return [float(v) for v in whole.reshape(-1)]


def main():
    mlp = predict(sys.argv[1], "training.json", "mnist_mlp_small", lambda case: (case["batch"], case["features"]))
    images = predict(sys.argv[2], "images.json", "digits", lambda case: case["dims"])
    with open(os.path.join(GOLDEN, "onnxruntime", "predictions.json"), "w") as out:
        json.dump({"onnxruntime": onnxruntime.__version__, "predictions": mlp, "images": images}, out)


if __name__ == "__main__":
    main()
