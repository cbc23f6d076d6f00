"""Writes a NumPy array as an IDX file, which a job reads: write_idx("images.idx", images)."""
import numpy as np

CODES = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, CODES[array.dtype.name], array.ndim]))
        file.write(np.array(array.shape, ">u4").tobytes())
        file.write(array.astype(array.dtype.newbyteorder(">")).tobytes())
