#!/usr/bin/env python3
"""Real models beside Keras: the same configuration, weights, data, order and steps, trained here and by Keras 3.

"characters": a transformer that predicts the next character of this repository's docs. "languages": an LSTM that tells from
100 characters of this repository's sources which language they are written in. Each is trained once by Keras and once by
each strategy; the losses and accuracies on the test data are compared. Exits 1 if a loss is off by more than 0.05 nats or
an accuracy by more than 1 point.

    python3 -m venv DIR && DIR/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
    DIR/bin/python tests/bench/peers/real_models.py [MODEL...]

Run from the repository's root with a release build, or name the coordinator with --coordinator.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "docs/examples/keras"))
from write_idx import write_idx  # noqa: E402

LOSS_TOLERANCE = 0.05
ACCURACY_TOLERANCE = 0.01
BATCH = 64
# Adam of Keras 3.15 squares the gradients of an embedding's row one by one where a batch has the row several times; Keras 2,
# TensorFlow and Cohort square their sum. The LSTM learns little but its embeddings, so SGD is what compares the rest.
OPTIMIZERS = {
    "characters": ("Adam", 2e-3, {}),
    "languages": ("SGD", 0.2, {"momentum": 0.9, "global_clipnorm": 1.0}),
}
STRATEGIES = {
    "one_device": ("worker=1", {"type": "one_device"}),
    "parameter_server": ("ps=2,worker=1", {"type": "parameter_server"}),
    "mirrored": ("worker=1", {"type": "mirrored", "devices": ["cpu:0", "cpu:1"]}),
    "multi_worker_mirrored": ("worker=2", {"type": "multi_worker_mirrored"}),
}
LANGUAGES = {".cc": 0, ".h": 0, ".py": 1, ".md": 2, ".sh": 3, ".proto": 4, ".json": 5}


def texts(ending):
    listed = subprocess.run(["git", "ls-files", f"*{ending}"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.split():
        yield (ROOT / name).read_text(encoding="utf-8", errors="replace")


def as_bytes(text):
    return np.minimum(np.frombuffer(text.encode("latin-1", "replace"), np.uint8), 127)


def characters_data(random):
    """Windows of 64 characters, their places, and the characters that follow each."""
    length = 64
    all_text = np.concatenate([as_bytes(text) for text in texts(".md")])
    starts = random.permutation((len(all_text) - 1) // length)[:6144] * length
    x = np.stack([all_text[s:s + length] for s in starts]).astype(np.int32)
    y = np.stack([all_text[s + 1:s + length + 1] for s in starts]).astype(np.int32)
    places = np.tile(np.arange(length, dtype=np.int32), (len(x), 1))
    return [x, places], y


def characters_model():
    length, width = 64, 64
    ids = keras.Input((length,), dtype="int32", name="ids")
    places = keras.Input((length,), dtype="int32", name="places")
    x = keras.layers.Embedding(128, width, name="characters")(ids)
    x = x + keras.layers.Embedding(length, width, name="positions")(places)
    for i in range(2):
        normed = keras.layers.LayerNormalization()(x)
        attended = keras.layers.MultiHeadAttention(4, width // 4)(normed, normed, use_causal_mask=True)
        x = keras.layers.Add()([x, attended])
        hidden = keras.layers.Dense(4 * width, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = keras.layers.Add()([x, keras.layers.Dense(width)(hidden)])
    logits = keras.layers.Dense(128, name="next")(keras.layers.LayerNormalization()(x))
    return keras.Model([ids, places], logits, name="characters")


def languages_data(random):
    """Windows of 100 characters of sources, as many of each language as can be had, and the language."""
    length, each = 100, 1024
    x, y = [], []
    for ending, language in LANGUAGES.items():
        windows = []
        for text in texts(ending):
            codes = as_bytes(text)
            windows += [codes[s:s + length] for s in range(0, len(codes) - length, length)]
        chosen = random.permutation(len(windows))[:each]
        x += [windows[i] for i in chosen]
        y += [language] * len(chosen)
    order = random.permutation(len(x))
    return [np.stack(x)[order].astype(np.int32)], np.array(y, np.int32)[order]


def languages_model():
    ids = keras.Input((100,), dtype="int32", name="ids")
    x = keras.layers.Embedding(128, 32, name="characters")(ids)
    x = keras.layers.LSTM(64, name="lstm")(x)
    return keras.Model(ids, keras.layers.Dense(max(LANGUAGES.values()) + 1, name="language")(x), name="languages")


MODELS = {"characters": (characters_data, characters_model, 4), "languages": (languages_data, languages_model, 8)}


def split(arrays):
    """Nine tenths, in whole batches, for training; the rest for the test."""
    train = len(arrays[0]) * 9 // 10 // BATCH * BATCH
    return [a[:train] for a in arrays], [a[train:] for a in arrays]


DECAYS = {"languages"}


def decay_steps(arrays, epochs):
    return len(arrays[0]) * 9 // 10 // BATCH * epochs


def train_keras(name, model, inputs, labels, epochs):
    # The LSTM's rate ends at 0: what it ends with at a constant rate depends on its last steps, and so on rounding.
    optimizer, rate, config = OPTIMIZERS[name]
    schedule = keras.optimizers.schedules.CosineDecay(rate, decay_steps(inputs, epochs)) if name in DECAYS else rate
    model.compile(getattr(keras.optimizers, optimizer)(schedule, **config), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    train_x, test_x = split(inputs)
    (train_y,), (test_y,) = split([labels])
    model.fit(train_x, train_y, BATCH, epochs, verbose=0, shuffle=False)
    return model.evaluate(test_x, test_y, verbose=0)


def train_here(args, folder, name, strategy, epochs, steps):
    cluster, section = STRATEGIES[strategy]
    optimizer, rate, config = OPTIMIZERS[name]
    schedule = rate
    if name in DECAYS:
        schedule = {"class_name": "CosineDecay", "config": {"initial_learning_rate": rate, "decay_steps": steps}}
    job = {
        "name": name,
        "model": {"keras": "model.json"},
        "compile": {
            "optimizer": {"class_name": optimizer, "config": {"learning_rate": schedule, **config}},
            "loss": {"class_name": "SparseCategoricalCrossentropy", "config": {"from_logits": True}},
            "metrics": ["accuracy"],
        },
        "data": {part: {"class_name": "IDX", "config": {"paths": sorted(str(p) for p in folder.glob(f"{part}_*.idx"))}}
                 for part in ("train", "test")},
        "fit": {"batch_size": BATCH, "epochs": epochs, "shuffle": False, "closures_in_flight": 1},
        "checkpoint": {"init_from": str(folder / "start.weights.h5")},
        "strategy": section,
    }
    path = folder / f"{strategy}.json"
    path.write_text(json.dumps(job))
    done = subprocess.run([args.coordinator, "--job", str(path), "--local", cluster], cwd=folder, capture_output=True,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{name} {strategy} failed:\n{done.stderr}")
    summary = json.loads(done.stdout)
    return summary["test_loss"], summary["test_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--coordinator", default=str(ROOT / "build/release/bin/coordinator"))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    args = parser.parse_args()
    wrong = False
    for name in args.models or MODELS:
        make_data, make_model, epochs = MODELS[name]
        keras.utils.set_random_seed(37)
        inputs, labels = make_data(np.random.default_rng(37))
        model = make_model()
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            (folder / "model.json").write_text(model.to_json())
            model.save_weights(folder / "start.weights.h5")
            for part, arrays in zip(("train", "test"), split(inputs + [labels])):
                for i, array in enumerate(arrays):
                    write_idx(folder / f"{part}_{i}.idx", array)
            loss, accuracy = train_keras(name, model, inputs, labels, epochs)
            print(f"{name:12} {'Keras ' + keras.__version__:22} test loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
            for strategy in args.strategies.split(","):
                ours_loss, ours_accuracy = train_here(args, folder, name, strategy, epochs,
                                                       decay_steps(inputs, epochs))
                near = (abs(ours_loss - loss) <= LOSS_TOLERANCE
                        and abs(ours_accuracy - accuracy) <= ACCURACY_TOLERANCE)
                wrong |= not near
                print(f"{'':12} {strategy:22} test loss {ours_loss:.4f}, accuracy {ours_accuracy:.4f}"
                      f"{'' if near else '  OFF'}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
