#!/usr/bin/env python3
"""Writes reads.json and changes.json from TensorFlow's ShardedVariable.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0
  VENV/bin/python tests/golden/sharded_variable/make.py

The variable has 7 rows of 3, rows 0..6 in three shards (3, 2, 2), element (r, c) = 10 r + c. ShardedVariable promises
what Tensor.__getitem__ does: `shape` and `values` are the Tensor's. Where the container itself gives something else,
`sharded` has that (upstream defects: a start behind the end with a negative step, a newaxis in front of an index, and
later axes of an empty slice; and other classes of errors).
"""
import itertools
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.sharded_variable import ShardedVariable

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROWS = [3, 2, 2]


def make(dtype=np.float32, values=None):
    if values is None:
        values = np.add.outer(10 * np.arange(7), np.arange(3))
    parts = np.split(np.asarray(values, dtype), np.cumsum(ROWS)[:-1])
    return ShardedVariable([tf.Variable(part) for part in parts], name="v")


def plain(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "values": value.reshape(-1).tolist()}


def spec_to_json(item):
    if isinstance(item, slice):
        return {"slice": [item.start, item.stop, item.step]}
    if item is Ellipsis:
        return "..."
    if item is None:
        return "newaxis"
    return {"index": item}


def attempt(call):
    try:
        return plain(call())
    except Exception as error:  # pylint: disable=broad-except
        return {"error": type(error).__name__}


def reads():
    v = make()
    whole = tf.convert_to_tensor(v)
    specs = [(slice(a, b, c),) for a, b, c in itertools.product(
        [None, -9, -7, -3, 0, 2, 6, 8], [None, -9, -7, -2, 0, 3, 7, 8], [None, 2, -1, -3])]
    specs += [(i,) for i in range(-8, 8)]
    specs += [(slice(1, 6, 2), 1), (slice(None, None, -1), slice(None, None, -1)), (3, slice(1, None)), (-1, -1),
              (Ellipsis,), (Ellipsis, 0), (Ellipsis, slice(0, 2)), (2, Ellipsis), (slice(2, 5), Ellipsis, 2),
              (None,), (None, 4), (None, slice(1, 3)), (slice(2, 4), None), (4, None, slice(0, 2)), (Ellipsis, None),
              (slice(5, 2), slice(0, 1)), (slice(None), 3), (slice(None), -3), (0, 0, 0), (slice(0, 3, 0),),
              (slice(1, 5, 3), slice(2, None, -2))]
    cases = []
    for spec in specs:
        case = {"spec": [spec_to_json(item) for item in spec]}
        case.update(attempt(lambda: whole[spec if len(spec) > 1 else spec[0]]))
        sharded = attempt(lambda: v[spec if len(spec) > 1 else spec[0]])
        expected = {key: case[key] for key in case if key != "spec"}
        if sharded != expected:
            case["sharded"] = sharded
        cases.append(case)
    masks = [[True, False, True, False, False, True, True], [False] * 7]
    ids = [[5, 0, 6, 0, 3], [], [2, 2, 2], [[6, 1], [1, 4]]]
    return {
        "slices": cases,
        "masks": [{"mask": mask, **plain(v[np.array(mask)])} for mask in masks],
        "lookups": [{"ids": plain(np.array(i, np.int64)), **plain(tf.nn.embedding_lookup(v, np.array(i, np.int64)))}
                    for i in ids],
        "gather_nd": [{"indices": plain(np.array(i, np.int64)), **plain(tf.gather_nd(whole, np.array(i, np.int64)))}
                      for i in ([[6], [0], [3]], [[6, 2], [0, 1]], [[[1, 1]], [[5, 0]]])],
    }


def changes():
    """Each step on the variable that the one before it left."""
    result = []
    for dtype in (np.float32, np.int32, np.int64):
        v = make(dtype)
        steps = []

        def record(op, values, ids=None):
            values = np.asarray(values, dtype)
            if ids is None:
                getattr(v, op)(values)
            else:
                getattr(v, op)(tf.IndexedSlices(tf.constant(values), tf.constant(ids, tf.int64)))
            step = {"op": op, "operand": plain(values), "after": plain(v.numpy())["values"]}
            if ids is not None:
                step["ids"] = ids
            steps.append(step)

        rng = np.random.default_rng(7)
        rows = lambda n: rng.integers(-9, 10, (n, 3))
        record("assign_add", rows(7))
        record("assign_sub", rows(7))
        ids = [6, 0, 3, 3, 0]
        record("scatter_add", rows(5), ids)
        record("scatter_sub", rows(5), ids)
        record("scatter_max", rows(5), ids)
        record("scatter_min", rows(5), ids)
        record("scatter_mul", rows(5), ids)
        record("scatter_div", rng.integers(1, 5, (5, 3)) * rng.choice([-1, 1], (5, 3)), ids)
        record("scatter_update", rows(3), [5, 2, 4])
        record("batch_scatter_update", rows(2), [1, 6])
        record("scatter_add", rows(0), [])
        record("assign", rows(7))
        result.append({"dtype": np.dtype(dtype).name, "steps": steps})
    return result


for name, value in (("reads", reads()), ("changes", changes())):
    with open(os.path.join(FOLDER, name + ".json"), "w") as out:
        json.dump(value, out, separators=(",", ":"))
        out.write("\n")
