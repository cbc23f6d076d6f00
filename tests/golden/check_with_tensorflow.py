#!/usr/bin/env python3
"""Reads a bundle with TensorFlow and compares it with the values that should be in it.

usage: check_with_tensorflow.py PREFIX EXPECTED
EXPECTED has a line "bundle TAB name TAB dtype TAB dims TAB values" for each tensor, as
tests/golden/checkpoint/expected.txt. Each tensor is read whole (tf.train.load_checkpoint) and again
cut over three parts (RestoreV2, as a cluster with three ps would). Exit code 0: all equal;
77: TensorFlow is not installed; 1: a difference, which is printed.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    sys.exit(77)


def parts(rows):
    """TensorFlow's "div" rule over three."""
    base, extra = divmod(rows, 3)
    start = 0
    for i in range(3):
        count = base + (1 if i < extra else 0)
        if count:
            yield start, count
        start += count


def resharded(prefix, name, dtype, dims):
    spec = " ".join(str(d) for d in dims) + " %d,%d" + ":-" * (len(dims) - 1)
    pieces = [tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[name],
                                   shape_and_slices=[spec % part], dtypes=[dtype])[0]
              for part in parts(dims[0])]
    return tf.concat(pieces, axis=0)


def differences(prefix, line, reader):
    _, name, dtype, dims, values = line.rstrip("\n").split("\t")
    dims = [int(d) for d in dims.split(",")] if dims else []
    expected = np.array([float(v) for v in values.split()]).reshape(dims)
    dtype = tf.dtypes.as_dtype(dtype)
    if reader.get_variable_to_dtype_map().get(name) != dtype:
        return ["%s: dtype %s" % (name, reader.get_variable_to_dtype_map().get(name))]
    ways = {"whole": tf.constant(reader.get_tensor(name), dtype)}
    if dims and dims[0] > 0:
        ways["in three"] = resharded(prefix, name, dtype, dims)
    return ["%s read %s: %s" % (name, way, got.numpy()) for way, got in ways.items()
            if got.shape != dims or not np.array_equal(tf.cast(got, tf.float64).numpy(), expected)]


def main():
    prefix, expected = sys.argv[1:]
    reader = tf.train.load_checkpoint(prefix)
    with open(expected) as lines:
        lines = list(lines)
    found = [d for line in lines for d in differences(prefix, line, reader)]
    names = {line.split("\t")[1] for line in lines}
    found += ["not expected: " + n for n in reader.get_variable_to_shape_map() if n not in names]
    print("\n".join(found) or "TensorFlow %s read %d tensors" % (tf.__version__, len(lines)))
    sys.exit(1 if found or not lines else 0)


if __name__ == "__main__":
    main()
