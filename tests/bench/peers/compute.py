#!/usr/bin/env python3
"""PyTorch beside cohort_bench compute: the same models, batches, weights, optimizers and threads, in turns.

Each round runs our side and then PyTorch's, each as a new process; the medians of the rounds are compared. Refuses to
compare if the numbers of parameters, the flops or the losses of the first steps differ.

PyTorch is taken from the Python that --python or COHORT_PEERS_PYTHON names. To make one:
    python3 -m venv DIR && DIR/bin/pip install torch numpy && export COHORT_PEERS_PYTHON=DIR/bin/python
Run from the repository's root with a release build, or name the bench with --bench.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {
    "mnist_mlp": 1.3,
    "mnist_cnn": 1.1,
    "resnet20": 1.3,
    "transformer": 1.3,
    "lstm": 1.1,
    "wide_and_deep": 3,
}
REPEATS = {
    "mnist_mlp": 300,
    "mnist_cnn": 50,
    "resnet20": 4,
    "transformer": 4,
    "lstm": 30,
    "wide_and_deep": 200,
}
WITH_DROPOUT = ("mnist_mlp", "mnist_cnn")  # both sides drop other elements
WITHOUT_FLOPS = ("lstm",)  # PyTorch does not count those of its recurrent layers
LOSS_TOLERANCE = 2e-3
DROPOUT_TOLERANCE = 0.25
FLOPS_TOLERANCE = 0.02  # PyTorch counts a product of attention twice that it computes again


def run(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def check_alike(model, ours, theirs):
    def differ(key, tolerance):
        return abs(ours[key] - theirs[key]) > tolerance * abs(ours[key])

    wrong = []
    if ours["parameters"] != theirs["parameters"]:
        wrong.append("parameters")
    if model not in WITHOUT_FLOPS and differ("mflop_per_step", FLOPS_TOLERANCE):
        wrong.append("mflop_per_step")
    tolerance = DROPOUT_TOLERANCE if model in WITH_DROPOUT else LOSS_TOLERANCE
    wrong += [key for key in ("first_loss", "last_loss") if differ(key, tolerance)]
    if wrong:
        values = ", ".join(f"{key}: ours {ours[key]}, theirs {theirs[key]}" for key in wrong)
        sys.exit(f"{model}: the two sides do not compute the same: {values}")


def compare(options, directory, model, threads):
    weights = os.path.join(directory, f"{model}.npz")
    repeats = str(options.repeats or REPEATS[model])
    bench = [options.bench, "compute", "--model", model, "--threads", str(threads)]
    bench += ["--batch", str(options.batch)]
    run([*bench, "--repeats", "1", "--save", weights], threads)
    peer = [options.python, os.path.join(HERE, "pytorch_compute.py"), "--model", model]
    peer += ["--weights", weights, "--threads", str(threads), "--repeats", repeats]
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run([*bench, "--repeats", repeats], threads))
        theirs.append(run(peer, threads))
        check_alike(model, ours[-1], theirs[-1])

    def median(lines, key):
        return statistics.median(each[key] for each in lines)

    of_rounds = [a["value"] / b["value"] for a, b in zip(ours, theirs)]
    line = {
        "bench": "compute_peers",
        "case": ours[0]["case"],
        "ratio": round(median(ours, "value") / median(theirs, "value"), 3),
        "goal": GOALS[model],
        "ratio_min": round(min(of_rounds), 3),
        "ratio_max": round(max(of_rounds), 3),
        "ours_ms": median(ours, "ms_per_step"),
        "theirs_ms": median(theirs, "ms_per_step"),
        "ours_processor_ms": median(ours, "processor_ms_per_step"),
        "theirs_processor_ms": median(theirs, "processor_ms_per_step"),
        "layout": statistics.mode(each["layout"] for each in theirs),
        "of_sgemm_bound": median(ours, "ratio"),
        "sgemm_gflops": median(ours, "sgemm_gflops"),
        "parameters": ours[0]["parameters"],
        "mflop_per_step": ours[0]["mflop_per_step"],
        "first_losses": [ours[0]["first_loss"], theirs[0]["first_loss"]],
        "last_losses": [ours[0]["last_loss"], theirs[0]["last_loss"]],
        "version": theirs[0]["version"],
    }
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=[], help=f"of {', '.join(GOALS)}; all of them")
    parser.add_argument("--bench", default="build/release/bin/cohort_bench")
    parser.add_argument("--python", default=os.environ.get("COHORT_PEERS_PYTHON"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=0, help="steps of a round; 0: the model's number")
    parser.add_argument("--batch", type=int, default=0, help="0: the model's number")
    options = parser.parse_args()
    unknown = set(options.models) - set(GOALS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(GOALS)}")
    if not options.python:
        parser.error("name a Python that has PyTorch with --python or COHORT_PEERS_PYTHON; --help says how to make one")
    with tempfile.TemporaryDirectory(prefix="cohort-peers-") as directory:
        for model in options.models or GOALS:
            for threads in options.threads.split(","):
                compare(options, directory, model, int(threads))


if __name__ == "__main__":
    main()
