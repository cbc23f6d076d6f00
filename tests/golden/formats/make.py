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

import h5py
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
    os.chmod(path("types.safetensors"), 0o644)
    # A type without a tensor here is listed, and refused when it is read.
    header = b'{"f8":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    with open(path("float8.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"\0\0")


def fill_hdf5(file, many):
    """Writes every kind of dataset, attribute and group that the reader takes."""
    types = file.create_group("types")
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
        types[dtype] = ramp(dtype, (2, 3))
    types["f4_big"] = ramp("f4", (5,)).astype(">f4")
    types["scalar"] = ramp("f4", ())
    types["empty"] = ramp("f4", (0, 3))
    bf16 = types.create_dataset("bf16", data=ramp("f4", (2, 3)).astype(ml_dtypes.bfloat16).view("V2"))
    bf16.attrs["dtype"] = "bfloat16"
    types["opaque"] = np.zeros(2, dtype="V2")
    types["record"] = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])
    types["text"] = np.array([b"a", b"bc"])
    chunks = file.create_group("chunks")
    chunks.create_dataset("f4_whole", data=ramp("f4", (4, 6)), chunks=(4, 6), compression="gzip")
    chunks.create_dataset("i4_plain", data=ramp("i4", (4, 6)), chunks=(4, 6))
    if not many:
        return
    chunks.create_dataset("f4", data=ramp("f4", (5, 7)), chunks=(2, 3))
    chunks.create_dataset("f8_gzip", data=ramp("f8", (5, 7, 3)), chunks=(2, 3, 3), compression="gzip")
    chunks.create_dataset("i2_shuffled", data=ramp("i2", (50,)), chunks=(8,), compression="gzip", shuffle=True)
    chunks.create_dataset("f4_many", data=ramp("f4", (400,)), chunks=(3,), compression="gzip")


def fill_hdf5_attributes(file):
    names = file.create_group("names")
    names.attrs["fixed"] = np.array([b"a", b"bcd", b""])
    names.attrs["variable"] = np.array(["a", "b\u00e9", ""], dtype=h5py.string_dtype())
    names.attrs["empty"] = []
    names.attrs["text"] = "one text"
    names.attrs["bytes"] = np.bytes_(b"some bytes")
    names.attrs["long"] = "x" * 100000
    names.attrs["numbers"] = np.array([1.5, -2])
    for part in range(3):
        names.attrs[f"split{part}"] = np.array([f"s{part}a".encode(), f"s{part}b".encode()])
    for i in range(20):
        names.attrs[f"more{i}"] = i
    wide = file.create_group("wide")
    for i in range(300):
        wide[f"child{i}"] = np.float32(i)
    ordered = file.create_group("ordered", track_order=True)
    for i in range(40):
        ordered[f"child{i}"] = np.float32(i)
    few = file.create_group("few", track_order=True)
    few["a"] = np.float32(1)
    file.create_group("nothing")


def write_hdf5():
    """Writes an archive with a file for each version of the format, and files that are refused."""
    found = {}

    def add(name, fill, **options):
        out = io.BytesIO()
        with h5py.File(out, "w", **options) as file:
            fill(file)
        found[name] = out.getvalue()

    def everything(file):
        fill_hdf5(file, many=True)
        fill_hdf5_attributes(file)

    def latest(file):
        fill_hdf5(file, many=False)
        fill_hdf5_attributes(file)

    def virtual(file):
        layout = h5py.VirtualLayout(shape=(2,), dtype="f4")
        layout[:] = h5py.VirtualSource("other.h5", "x", shape=(2,))
        file.create_virtual_dataset("a", layout)

    def external(file):
        file.create_dataset("a", shape=(2,), dtype="f4", external=[("/etc/passwd", 0, 8)])

    def soft(file):
        file["a"] = h5py.SoftLink("/b")

    def external_link(file):
        file["a"] = h5py.ExternalLink("other.h5", "/b")

    def two_names(file):
        file["a"] = np.float32(1)
        file["b"] = file["a"]

    def named_type(file):
        file["t"] = np.dtype("f4")
        file.create_dataset("a", shape=(1,), dtype=file["t"])

    def fletcher(file):
        file.create_dataset("a", data=ramp("f4", (4,)), chunks=(2,), fletcher32=True)

    def lzf(file):
        file.create_dataset("a", data=ramp("f4", (4,)), chunks=(2,), compression="lzf")

    def unwritten(file):
        file.create_dataset("a", shape=(4,), dtype="f4")

    add("earliest.h5", everything)
    add("v110.h5", latest, libver=("v110", "v110"))
    add("latest.h5", latest, libver="latest")
    add("user_block.h5", lambda file: file.create_dataset("f4", data=ramp("f4", (2,))), userblock_size=1024)
    for fill in (virtual, external, soft, external_link, two_names, named_type, fletcher, lzf, unwritten):
        add(f"refused/{fill.__name__}.h5", fill)
    add("refused/new_chunks.h5", lambda file: file.create_dataset("a", data=ramp("f4", (9,)), chunks=(2,)),
        libver="latest")
    write_archive("hdf5.zip", found)

    # Small files with every structure once: from these the fuzz program begins.
    def small_attributes(file):
        for i in range(12):
            file.attrs[f"a{i}"] = i
        file.attrs["text"] = "one text"
        file.attrs["names"] = np.array([b"a", b"bcd"])

    def small_group(file):
        group = file.create_group("g", track_order=True)
        for i in range(10):
            group[f"c{i}"] = np.float32(i)

    def small_chunks(file):
        file.create_dataset("a", data=ramp("f4", (3, 3)), chunks=(2, 2), compression="gzip", shuffle=True)
        file.create_dataset("b", data=ramp("b1", (4,)), chunks=(4,))

    found.clear()
    for fill in (small_attributes, small_group, small_chunks):
        add(f"{fill.__name__}.h5", fill)
        add(f"{fill.__name__}_latest.h5", fill, libver=("v110", "v110"))
    write_archive("hdf5_small.zip", found)


def write_archive(name, files):
    with zipfile.ZipFile(path(name), "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED, 9)


write_npz()
write_safetensors()
write_hdf5()
