#!/usr/bin/env python3
"""Reads with h5py what Hdf5Writer.TheBytesAreThoseThatH5pyHasRead writes: check_hdf5.py FILE [ARCHIVE].

Every value is compared with what the test gives to the writer. With ARCHIVE, the file is then packed into it, as written.h5.
"""
import sys
import zipfile

import h5py
import numpy as np


def check(file):
    root = file.attrs
    assert root["model_config"] == "x" * 70000
    assert root["backend"] == "tensorflow"
    assert root["empty"].shape == (0,) and root["empty"].dtype == np.float64
    assert [name.decode() for name in root["names"]] == ["a", "b\u00e9", ""]
    group = file["model_weights"].attrs
    names, part = [], 0
    while f"layer_names{part}" in group:
        names += [name.decode() for name in group[f"layer_names{part}"]]
        part += 1
    assert part > 1 and names == [f"some_long_name_{i}" for i in range(5000)]
    types = file["types"]
    expected = {
        "f4": np.array([[1, 2.5, 3], [4, 5, 6]], "f4"),
        "f8": np.float64(-7),
        "i1": np.array([-1, 2, 3], "i1"),
        "u1": np.array([200], "u1"),
        "i4": np.int32(-5),
        "i8": np.int64(1 << 40),
        "b1": np.array([True, False]),
        "f2": np.zeros((2, 2), "f2"),
        "bf16": np.zeros(3, "V2"),
        "empty": np.zeros((0, 4), "f4"),
    }
    assert set(types) == set(expected)
    for name, value in expected.items():
        found = types[name][()]
        assert found.dtype == value.dtype and found.shape == value.shape, (name, found)
        assert found.tobytes() == value.tobytes(), name
    assert types["bf16"].attrs["dtype"] == "bfloat16"
    assert len(file["wide"]) == 700
    assert all(file[f"wide/child{i}"][()] == i for i in range(700))
    assert list(file["nothing"]) == ["inside"]


with h5py.File(sys.argv[1], "r") as opened:
    check(opened)
print("h5py reads every value")
if len(sys.argv) > 2:
    with open(sys.argv[1], "rb") as source, zipfile.ZipFile(sys.argv[2], "w") as archive:
        archive.writestr(zipfile.ZipInfo("written.h5"), source.read(), zipfile.ZIP_DEFLATED, 9)
