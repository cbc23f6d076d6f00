"""Writes a pack of golden files for the scripts of this folder. The same files give the same bytes: no time stands in a pack."""
import io
import sys
import zipfile

PACK_BYTES_MAX = 1 << 20


def write_pack(path, members):
    """Writes the (name, content) pairs as a ZIP archive, and prints its size; ends the program if it is too large."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    if packed.tell() >= PACK_BYTES_MAX:
        sys.exit(f"{path} would have {packed.tell()} bytes")
    with open(path, "wb") as file:
        file.write(packed.getvalue())
    print(f"{path}: {packed.tell()} bytes")
