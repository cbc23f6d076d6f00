#!/usr/bin/env python3
"""tf.data beside cohort_bench input: the same files, one core, in turns; medians of the turns.

tf.data has one private thread and no autotuning, its processor time counts, and parse_example gets whole batches, which is
the fastest of its forms. Files are written to --directory and kept. Adult is taken from COHORT_DATA_DIR.

TensorFlow is taken from the Python that runs this: python3 -m venv DIR && DIR/bin/pip install tensorflow-cpu, then
    DIR/bin/python tests/bench/peers/input.py --bench build/release/tests/cohort_bench
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf

NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
NAMES = ("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
         "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income")
COPIES = 4  # of Adult's rows
GOALS = {"tfrecord": 4, "csv": 5, "jpeg": 1.3, "idx": 1.5}
BATCHES = {"tfrecord": 1024, "csv": 1024, "jpeg": 32, "idx": 128}


def write_files(directory):
    paths = {name: os.path.join(directory, f"{name}.bench") for name in GOALS}
    if all(os.path.exists(path) for path in paths.values()):
        return paths
    with open(os.path.join(os.environ["COHORT_DATA_DIR"], "adult", "adult.data"), encoding="ascii") as file:
        rows = [[field.strip() for field in line.split(",")] for line in file if line.strip()] * COPIES
    with open(paths["csv"], "w", encoding="ascii") as out, tf.io.TFRecordWriter(paths["tfrecord"]) as records:
        for row in rows:
            out.write(",".join(row) + "\n")
            feature = {}
            for name, value in zip(NAMES, row):
                if name in NUMBERS:
                    feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
                else:
                    feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
            records.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    # Smooth pictures with some noise, as photographs compress.
    rng = np.random.default_rng(1)
    with tf.io.TFRecordWriter(paths["jpeg"]) as records:
        for _ in range(400):
            coarse = rng.integers(0, 256, (8, 8, 3)).astype(np.float32)
            pixels = tf.image.resize(coarse, (224, 224)).numpy() + rng.normal(0, 6, (224, 224, 3))
            data = tf.io.encode_jpeg(np.clip(pixels, 0, 255).astype(np.uint8), quality=75).numpy()
            feature = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))}
            records.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    pixels = rng.integers(0, 256, (60000, 28, 28), dtype=np.uint8)
    with open(paths["idx"], "wb") as out:
        out.write(bytes((0, 0, 8, 3)) + np.array(pixels.shape, dtype=">u4").tobytes() + pixels.tobytes())
    return paths


def pipeline(name, path):
    batch = BATCHES[name]
    if name == "idx":
        pixels = np.fromfile(path, dtype=np.uint8, offset=16).reshape(-1, 28, 28)
        return tf.data.Dataset.from_tensor_slices(pixels).batch(batch).map(
            lambda x: tf.cast(x, tf.float32) * (1 / 255.0)), len(pixels)
    if name == "csv":
        defaults = [tf.constant([], tf.int64) if n in NUMBERS else tf.constant([], tf.string) for n in NAMES]
        return tf.data.TextLineDataset(path).batch(batch).map(lambda x: tf.io.decode_csv(x, defaults)), None
    if name == "tfrecord":
        features = {n: tf.io.FixedLenFeature([], tf.int64 if n in NUMBERS else tf.string) for n in NAMES}
        return tf.data.TFRecordDataset(path).batch(batch).map(lambda x: tf.io.parse_example(x, features)), None

    def decode(record):
        one = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})
        return tf.cast(tf.io.decode_jpeg(one["image"], channels=3), tf.float32)

    return tf.data.TFRecordDataset(path).map(decode).batch(batch), None


def theirs(name, path):
    dataset, count = pipeline(name, path)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    for timed in (False, True):
        records = 0
        begin = time.process_time()
        for element in dataset:
            first = tf.nest.flatten(element)[0]
            records += first.shape[0]
        seconds = time.process_time() - begin
    return (count or records) / seconds


def ours(bench, name, path):
    command = [bench, "input", "--case", name, "--file", path, "--batch", str(BATCHES[name])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/release/tests/cohort_bench")
    parser.add_argument("--directory", default="/tmp")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    paths = write_files(options.directory)
    for name, goal in GOALS.items():
        turns = [(ours(options.bench, name, paths[name]), theirs(name, paths[name])) for _ in range(options.turns)]
        mine, other = (statistics.median(values) for values in zip(*turns))
        print(json.dumps({"case": name, "ours": round(mine), "tf.data": round(other), "unit": "records/s",
                          "ratio": round(mine / other, 2), "goal": goal}), flush=True)


if __name__ == "__main__":
    main()
