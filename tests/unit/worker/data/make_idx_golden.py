"""Writes the golden IDX files of idx_test.cc: python3 make_idx_golden.py DIRECTORY (needs NumPy)"""
import gzip
import struct
import sys
from pathlib import Path

import numpy as np

CODES = {"uint8": 0x08, "int8": 0x09, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def idx_bytes(array):
    header = struct.pack(">BBBB", 0, 0, CODES[array.dtype.name], array.ndim)
    header += b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def main(directory):
    out = Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    i = np.arange(40 * 6 * 5)
    images = ((i * i * 31 + i // 3 * 17) % 256).astype(np.uint8).reshape(40, 6, 5)
    labels = ((np.arange(40) * 7) % 10).astype(np.uint8)
    ramp = np.arange(12).reshape(4, 3) - 5
    (out / "images.idx.gz").write_bytes(gzip.compress(idx_bytes(images), 6, mtime=0))
    (out / "labels.idx.gz").write_bytes(gzip.compress(idx_bytes(labels), 6, mtime=0))
    (out / "images.idx").write_bytes(idx_bytes(images))
    (out / "int8.idx").write_bytes(idx_bytes(ramp.astype(np.int8)))
    (out / "int32.idx").write_bytes(idx_bytes((ramp * 1000003).astype(np.int32)))
    (out / "float32.idx").write_bytes(idx_bytes((ramp * 0.3).astype(np.float32)))
    (out / "float64.idx").write_bytes(idx_bytes(ramp * 0.3))


main(sys.argv[1])
