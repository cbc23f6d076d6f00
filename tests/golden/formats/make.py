#!/usr/bin/env python3
"""Makes small files in the formats of other programs, by these programs' own libraries: make.py [TARGET].

Needs numpy, safetensors, ml_dtypes and h5py. Element i of an array is i * 3 - 7; of an unsigned one i * 3, and of bools
whether i is odd. An array's name says its type and, if it is not that of C, its order of elements or bytes.
"""
import io
import os
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import safetensors.numpy

HERE = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(HERE, name)


def ramp(dtype, shape):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(count) % 2 == 1).reshape(shape)
    first = 0 if dtype.kind == "u" else -7
    return (np.arange(count) * 3 + first).astype(dtype).reshape(shape)


def npy_bytes(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def arrays():
    """Returns the arrays of the .npz files."""
    found = {}
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
        found[dtype] = ramp(dtype, (2, 3))
    found["f4_fortran"] = np.asfortranarray(ramp("f4", (2, 3, 4)))
    found["f8_big"] = ramp("f8", (5,)).astype(">f8")
    found["i2_big_fortran"] = np.asfortranarray(ramp("i2", (3, 2)).astype(">i2"))
    found["scalar"] = ramp("f4", ())
    found["empty"] = ramp("f4", (0, 3))
    found["with/slash"] = ramp("f4", (1,))
    return found


def write_npz():
    np.savez(path("stored.npz"), **arrays())
    np.savez_compressed(path("deflated.npz"), **arrays())
    with zipfile.ZipFile(path("versions.npz"), "w") as archive:
        for version in ((1, 0), (2, 0), (3, 0)):
            archive.writestr(zipfile.ZipInfo(f"v{version[0]}.npy"), npy_bytes(ramp("f4", (2, 2)), version))
    with zipfile.ZipFile(path("zip64.npz"), "w") as archive:
        with archive.open(zipfile.ZipInfo("a.npy"), "w", force_zip64=True) as member:
            member.write(npy_bytes(ramp("f4", (3,))))
    refused = {
        "object": np.array([None, 1], dtype=object),
        "record": np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]),
        "text": np.array(["a", "bc"]),
        "complex": np.zeros(2, dtype="c8"),
        "time": np.zeros(2, dtype="M8[s]"),
        "bfloat16": np.zeros(2, dtype=ml_dtypes.bfloat16),
    }
    np.savez(path("refused.npz"), **refused)


def write_safetensors():
    tensors = {}
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
        tensors[dtype] = ramp(dtype, (2, 3))
    tensors["bf16"] = ramp("f4", (2, 3)).astype(ml_dtypes.bfloat16)
    tensors["scalar"] = ramp("f4", ())
    tensors["empty"] = ramp("f4", (0, 3))
    tensors["a name / with \"quotes\" and é"] = ramp("f4", (1,))
    safetensors.numpy.save_file(tensors, path("types.safetensors"), metadata={"format": "pt", "é": "\n"})
    # A type without a tensor here is listed, and refused when it is read.
    header = b'{"f8":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    with open(path("float8.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"\0\0")


write_npz()
write_safetensors()
