#!/usr/bin/env python3
"""Packs whole models that Keras saved: pack_files.py SOURCE [TARGET].

SOURCE has a folder for each version of Keras (2.2.4, 2.15.0, 3.15.1) with one functional model of three inputs, which has
wrappers, a nested model and attention: m.h5, and m.keras where the version has it. TARGET, this folder if it is left out,
gets saved_models.zip. The same files give the same bytes: no time stands in a pack.
"""
import io
import os
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACK_BYTES_MAX = 1 << 20


def main():
    source = sys.argv[1]
    target = sys.argv[2] if len(sys.argv) > 2 else HERE
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for folder in ("2.2.4", "2.15.0", "3.15.1"):
            for name in ("m.h5", "m.keras"):
                path = os.path.join(source, folder, name)
                if not os.path.exists(path):
                    continue
                with open(path, "rb") as file:
                    archive.writestr(zipfile.ZipInfo(f"{folder}/{name}"), file.read(), zipfile.ZIP_DEFLATED, 9)
    if packed.tell() >= PACK_BYTES_MAX:
        sys.exit(f"the pack has {packed.tell()} bytes")
    with open(os.path.join(target, "saved_models.zip"), "wb") as file:
        file.write(packed.getvalue())
    print(f"{packed.tell()} bytes")


main()
