#!/usr/bin/env python3
"""Writes tests/golden/checkpoint with TensorFlow itself: bundles that Cohort must read (expected.txt
says what is in them), and bundles that Cohort must write byte for byte from the same tensors.

usage: make_checkpoints.py [DIRECTORY]   (needs tensorflow or tensorflow-cpu; made with 2.21)
Reruns differ only in the order in which TensorFlow numbers the nodes of an object graph.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

EXPECTED = []


def ramp(shape, dtype):
    """Element i is i * 3 - 7, or its parity for bools: small, exact in every type."""
    count = int(np.prod(shape, dtype=np.int64))
    values = np.arange(count, dtype=np.int64) * 3 - 7
    if dtype == tf.bool:
        values = values % 2 == 0
    elif dtype == tf.uint8:
        values = values + 7
    return tf.cast(tf.constant(values.reshape(shape)), dtype)


def expect(bundle, name, tensor):
    wide = tf.cast(tensor, tf.float64).numpy().reshape(-1)
    dims = ",".join(str(d) for d in tensor.shape)
    EXPECTED.append("\t".join([bundle, name, tensor.dtype.name, dims,
                               " ".join("%.17g" % v for v in wide)]))


def variables(directory):
    kinds = [tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.int8, tf.bool, tf.bfloat16,
             tf.float16]
    held = {k.name: tf.Variable(ramp([3, 5], k)) for k in kinds}
    held["scalar"] = tf.Variable(ramp([], tf.float32))
    held["empty"] = tf.Variable(tf.zeros([0, 4]))
    held["rank4"] = tf.Variable(ramp([2, 1, 3, 2], tf.float32))
    tf.train.Checkpoint(**held).write(os.path.join(directory, "variables"))
    for name, variable in held.items():
        expect("variables", name + "/.ATTRIBUTES/VARIABLE_VALUE", variable.value())


def save(prefix, pieces):
    names, specs, tensors = zip(*pieces)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(names), shape_and_slices=list(specs),
                      tensors=list(tensors))


def partitioned(directory):
    """Slices of several layouts: rows, columns, a grid with explicit full extents, whole."""
    rows = ramp([13, 4], tf.float32)
    columns = ramp([4, 7], tf.float64)
    grid = ramp([6, 5, 2], tf.int32)
    whole = ramp([3, 3], tf.int64)
    pieces = [("whole", "", whole)]
    start = 0
    for count in [3, 3, 3, 2, 2]:
        pieces.append(("rows", "13 4 %d,%d:-" % (start, count), rows[start:start + count]))
        start += count
    pieces.append(("columns", "4 7 -:0,3", columns[:, :3]))
    pieces.append(("columns", "4 7 -:3,4", columns[:, 3:]))
    for r, h in [(0, 4), (4, 2)]:
        for c, w in [(0, 2), (2, 3)]:
            pieces.append(("grid", "6 5 2 %d,%d:%d,%d:0,2" % (r, h, c, w),
                           grid[r:r + h, c:c + w, :]))
    save(os.path.join(directory, "partitioned"), pieces)
    for name, tensor in [("whole", whole), ("rows", rows), ("columns", columns), ("grid", grid)]:
        expect("partitioned", name, tensor)


def merged(directory):
    """What three ps would save: slices of rows in three data shards, merged into one bundle.
    Cohort writes the same bytes (bundle_golden_test.cc)."""
    embedding = ramp([130, 3], tf.float32)
    kernel = ramp([2, 4], tf.float32)
    step = tf.constant(300, tf.int64)
    parts = []
    for shard, (start, count) in enumerate([(0, 44), (44, 43), (87, 43)]):
        pieces = [("embedding", "130 3 %d,%d:-" % (start, count),
                   embedding[start:start + count])]
        if shard == 0:
            pieces.append(("step", "", step))
        if shard == 2:
            pieces.append(("kernel", "", kernel))
        part = os.path.join(directory, "part%d" % shard)
        save(part, pieces)
        parts.append(part)
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts,
                                  destination_prefix=os.path.join(directory, "merged"))
    for name, tensor in [("embedding", embedding), ("kernel", kernel), ("step", step)]:
        expect("merged", name, tensor)


def keras(directory):
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3, activation="relu"),
                                 tf.keras.layers.Dense(2)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    for variable in model.variables:
        variable.assign(ramp(variable.shape, tf.float32))
    model.fit(np.ones([8, 4], np.float32), np.ones([8, 2], np.float32), epochs=1, verbose=0)
    prefix = os.path.join(directory, "keras")
    tf.train.Checkpoint(model=model).write(prefix)
    reader = tf.train.load_checkpoint(prefix)
    for name, dtype in sorted(reader.get_variable_to_dtype_map().items()):
        if dtype != tf.string:
            expect("keras", name, tf.constant(reader.get_tensor(name)))


def state_file(directory):
    folder = os.path.join(directory, "manager")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), folder, 2)
    for _ in range(3):
        manager.save()
    for name in os.listdir(folder):
        if name != "checkpoint":
            os.remove(os.path.join(folder, name))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "checkpoint")
    os.makedirs(directory, exist_ok=True)
    for make in [variables, partitioned, merged, keras, state_file]:
        make(directory)
    with open(os.path.join(directory, "expected.txt"), "w") as out:
        out.write("\n".join(EXPECTED) + "\n")


if __name__ == "__main__":
    main()
