#!/usr/bin/env python3
"""Packs golden cases of Keras models: pack.py [--add] SOURCE [TARGET].

SOURCE has the folders k2.15 and k3.15 with one JSON file a case (golden_models.py and golden_options.py wrote them, under
Keras 2.15.0 and 3.15.1). With --add, the cases that TARGET has stay beside them. TARGET, this folder if it is left out, gets VERSION/FAMILY.jsonl.gz: one case a line, sorted by the case's name,
with the families of tests/models/families.txt. The same cases give the same bytes: no time and no name stand in a pack,
and a number stays as it is written in the case's file.
"""
import gzip
import io
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "..", "..", "models", "families.txt")
VERSIONS = ("k2.15", "k3.15")
PACK_BYTES_MAX = 1 << 20


def families():
    """Returns the family of each class, and of each kind as "kind:NAME"."""
    found = {}
    with open(FAMILIES, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            family, members = line.split(":", 1)
            for member in members.split():
                found[member] = family
    return found


def packed_cases(folder):
    """Returns the lines of the packs in a folder by family and name."""
    packs = {}
    for name in os.listdir(folder):
        with gzip.open(os.path.join(folder, name), "rt", encoding="utf-8") as lines:
            cases = [line.rstrip("\n") for line in lines]
        packs[name.removesuffix(".jsonl.gz")] = {json.loads(case)["case"]: case for case in cases}
    return packs


def main():
    adds = sys.argv[1] == "--add"
    source, *rest = sys.argv[2 if adds else 1:]
    target = rest[0] if rest else HERE
    family_of = families()
    for version in VERSIONS:
        packs = packed_cases(os.path.join(target, version)) if adds else {}
        folder = os.path.join(source, version)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            case = json.loads(text)
            line = text.strip()
            if "\n" in line:
                line = json.dumps(case, separators=(",", ":"), allow_nan=False)
            key = "kind:" + case["kind"]
            family = family_of[key] if key in family_of else family_of[case["class_name"]]
            packs.setdefault(family, {})[case["case"]] = line
        os.makedirs(os.path.join(target, version), exist_ok=True)
        for family, cases in sorted(packs.items()):
            packed = io.BytesIO()
            with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
                for _, line in sorted(cases.items()):
                    file.write(line.encode("utf-8") + b"\n")
            if packed.tell() >= PACK_BYTES_MAX:
                sys.exit(f"{version}/{family} has {packed.tell()} bytes; split the family in families.txt")
            with open(os.path.join(target, version, family + ".jsonl.gz"), "wb") as file:
                file.write(packed.getvalue())
            print(f"{version}/{family}: {len(cases)} cases, {packed.tell()} bytes")


main()
