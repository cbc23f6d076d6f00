#!/usr/bin/env python3
"""Packs the training curves of a model with three outputs: pack_multiout.py CURVES.

CURVES has 2.15/multiout.json and 3.15/multiout.json: 200 steps by three optimizers, of which multiout.json beside this
script keeps the first 20 of one optimizer from each version, with the reports of the first epoch and the evaluation
behind it. Keras 3.15's configuration of a Huber loss has lost its delta, which was 0.5 as in Keras 2.15's. Adam is left
out: Keras's bias correction in float32 puts its metrics 1e-5 off those in float64, as far as their spread allows.
"""
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
STEPS = 20


def case(folder, version, optimizer):
    with open(os.path.join(folder, version, "multiout.json"), encoding="utf-8") as file:
        curves = json.load(file)
    run = curves["runs"][optimizer]
    curves["loss"]["reg"]["config"]["delta"] = 0.5
    first = {key: {name: {"value": one["value"][0], "spread": one["spread"][0]} for name, one in run[key].items()}
             for key in ("train_metrics", "evaluate")}
    return {"keras": version, "model": curves["config"], "optimizer": run["optimizer"], "loss": curves["loss"],
            "loss_weights": curves["loss_weights"], "batch": curves["batch"], "inputs": curves["inputs"],
            "targets": curves["targets"], "start_weights": curves["start_weights"], "losses": run["loss"][:STEPS],
            "spread": run["spread"][:STEPS], "weights": run["weights20"], **first}


def main():
    cases = [case(sys.argv[1], "2.15", "sgd_momentum"), case(sys.argv[1], "3.15", "rmsprop")]
    with open(os.path.join(FOLDER, "multiout.json"), "w", encoding="utf-8") as out:
        json.dump({"cases": cases}, out)


if __name__ == "__main__":
    main()
