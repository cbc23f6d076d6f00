#!/usr/bin/env python3
"""Packs trained models in every kind of file: pack_restore.py SOURCE [TARGET].

SOURCE has the folders k2.15, k3.15 and tf1: what Keras 2.15.0, Keras 3.15.1 and TensorFlow 1's Saver wrote in the middle
of a training, with NAME.json, which says what is in the files and how the training goes on. TARGET, this folder if it is
left out, gets restore_FOLDER.zip. The same files give the same bytes: no time stands in a pack.
"""
import os
import sys

from zip_pack import write_pack

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    source = sys.argv[1]
    target = sys.argv[2] if len(sys.argv) > 2 else HERE
    for folder in ("k2.15", "k3.15", "tf1"):
        members = []
        for root, folders, names in os.walk(os.path.join(source, folder)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    members.append((os.path.relpath(path, os.path.join(source, folder)), file.read()))
        write_pack(os.path.join(target, f"restore_{folder}.zip"), members)


main()
