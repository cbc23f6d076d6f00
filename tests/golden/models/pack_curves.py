#!/usr/bin/env python3
"""Packs the training curves of eight models: pack_curves.py CURVES [TARGET].

CURVES has the folders 2.15 and 3.15: 200 steps by three optimizers in that version of Keras, with the losses of each step
and how far they may be off ("spread": ten times the distance between Keras's own float32 and float64). TARGET, this folder
if it is left out, gets curves_k2.15.zip and curves_k3.15.zip with what the tests read. Keras 3.15's configuration of a
Huber loss has lost its delta, which was 0.5 as in Keras 2.15's.
"""
import json
import os
import sys

from zip_pack import write_pack

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_KEYS = ("optimizer", "loss", "spread", "meaningful_steps", "train_metrics", "evaluate", "weights20")


def shortened(curves):
    if "reg" in curves["loss"]:
        curves["loss"]["reg"]["config"]["delta"] = 0.5
    for name, run in curves["runs"].items():
        curves["runs"][name] = {key: run[key] for key in RUN_KEYS}
    return curves


def main():
    source = sys.argv[1]
    target = sys.argv[2] if len(sys.argv) > 2 else HERE
    for version in ("2.15", "3.15"):
        members = []
        for name in sorted(os.listdir(os.path.join(source, version))):
            with open(os.path.join(source, version, name), encoding="utf-8") as file:
                members.append((name, json.dumps(shortened(json.load(file)), separators=(",", ":"))))
        write_pack(os.path.join(target, f"curves_k{version}.zip"), members)


main()
