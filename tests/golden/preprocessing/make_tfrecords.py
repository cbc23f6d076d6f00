"""Makes tfrecords.json: the bytes of TFRecord files that TensorFlow wrote.

Made with tensorflow-cpu 2.21.0: python make_tfrecords.py > tfrecords.json
"""

import json
import pathlib
import tempfile

import tensorflow as tf

RECORDS = ["abc", "", "x" * 5000, "".join(chr(97 + i * i % 26) for i in range(3000))]
files = {}
with tempfile.TemporaryDirectory() as directory:
    for name in ("", "GZIP", "ZLIB"):
        path = str(pathlib.Path(directory) / "file")
        with tf.io.TFRecordWriter(path, options=name) as writer:
            for record in RECORDS:
                writer.write(record)
        files[name or "none"] = pathlib.Path(path).read_bytes().hex()
    with tf.io.TFRecordWriter(path, options="GZIP"):
        pass
    files["empty gzip"] = pathlib.Path(path).read_bytes().hex()
print(json.dumps({"tensorflow": tf.__version__, "records": RECORDS, "files": files}))
