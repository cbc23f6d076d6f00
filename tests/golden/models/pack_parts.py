#!/usr/bin/env python3
"""Packs what make_parts.py saved: pack_parts.py 2.15.0.keras 3.15.1.keras. The same files give the same bytes."""
import os
import sys
import zipfile

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parts.zip")

with zipfile.ZipFile(TARGET, "w") as archive:
    for path in sorted(sys.argv[1:]):
        version = os.path.basename(path)[: -len(".keras")]
        with open(path, "rb") as file:
            archive.writestr(zipfile.ZipInfo(f"{version}/m.keras"), file.read(), zipfile.ZIP_DEFLATED, 9)
