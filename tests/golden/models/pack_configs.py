#!/usr/bin/env python3
"""Packs what make_configs.py wrote: pack_configs.py FILE..., one file for each version of Keras.

This folder gets configs.jsonl.gz, sorted by version and name. The same files give the same bytes: no time stands in the pack.
"""
import gzip
import io
import json
import os
import sys

PACK_BYTES_MAX = 1 << 20


def main():
    lines = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                case = json.loads(line)
                version = tuple(int(part) for part in case["keras"].split("."))
                lines[version, case["name"]] = json.dumps(case, separators=(",", ":"), allow_nan=False)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        for _, line in sorted(lines.items()):
            file.write(line.encode("utf-8") + b"\n")
    if packed.tell() >= PACK_BYTES_MAX:
        sys.exit(f"the pack has {packed.tell()} bytes; leave versions out")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs.jsonl.gz"), "wb") as file:
        file.write(packed.getvalue())
    print(f"{len(lines)} configurations, {packed.tell()} bytes")


main()
