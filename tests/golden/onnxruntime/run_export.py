#!/usr/bin/env python3
"""Runs an exported model with onnxruntime and writes what it predicts to predictions.json.

  python3 -m venv VENV && VENV/bin/pip install onnxruntime==1.31.1 numpy
  build/dev/tests/model_test --gtest_filter='OnnxExport.*'      # writes the model; the test prints its path
  VENV/bin/python tests/golden/onnxruntime/run_export.py MODEL.onnx

The inputs are those of the case "mnist_mlp_small" of tests/golden/keras/training.json, alone and as one batch.
"""
import json
import os
import sys

import numpy as np
import onnxruntime

GOLDEN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    with open(os.path.join(GOLDEN, "keras", "training.json")) as file:
        case = next(c for c in json.load(file)["cases"] if c["name"] == "mnist_mlp_small")
    x = np.array(case["x"], np.float32).reshape(case["batch"], case["features"])
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), session.get_outputs()
    assert [i.name for i in inputs] == ["x"] and len(outputs) == 1, "one input, one output"
    assert isinstance(inputs[0].shape[0], str), "the batch is symbolic"
    whole = session.run(None, {"x": x})[0]
    one_by_one = np.concatenate([session.run(None, {"x": x[i:i + 1]})[0] for i in range(len(x))])
    np.testing.assert_allclose(whole, one_by_one, rtol=1e-6)
    np.testing.assert_allclose(whole.reshape(-1), case["predictions"], rtol=1e-5)
    with open(os.path.join(GOLDEN, "onnxruntime", "predictions.json"), "w") as out:
        json.dump({"onnxruntime": onnxruntime.__version__,
                   "predictions": [float(v) for v in whole.reshape(-1)]}, out)


if __name__ == "__main__":
    main()
