"""Makes image_directory.json: what Keras's image_dataset_from_directory makes of images in directories.

Made with tensorflow-cpu 2.21.0 and keras 3.15.1: python make_images.py > image_directory.json
"""

import base64
import json
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(3)
with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    files = {}

    def put(path, height, width, channels, jpeg):
        pixels = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        data = tf.io.encode_jpeg(pixels, quality=80).numpy() if jpeg else tf.io.encode_png(pixels).numpy()
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        files[path] = base64.b64encode(data).decode()

    put("b/2.png", 6, 7, 3, False)
    put("b/10.JPG", 9, 5, 3, True)
    put("b/deep/1.png", 4, 4, 1, False)
    put("a/x.jpeg", 12, 8, 1, True)
    put("C/only.png", 3, 9, 4, False)
    put(".hidden/no.png", 3, 3, 3, False)
    (root / "b" / "notes.txt").write_text("no image")
    files["b/notes.txt"] = base64.b64encode(b"no image").decode()
    cases = []
    for config in ({}, {"color_mode": "grayscale"}, {"class_names": ["b", "a"]}, {"interpolation": "nearest"}):
        dataset = keras.utils.image_dataset_from_directory(
            root, image_size=(4, 5), batch_size=100, shuffle=False, verbose=False, **config)
        images, labels = next(iter(dataset))
        cases.append({"config": config, "names": dataset.class_names, "labels": labels.numpy().tolist(),
                      "images": [[round(float(v), 5) for v in one.ravel()] for one in images.numpy()]})
print(json.dumps({"keras": keras.__version__, "tensorflow": tf.__version__, "files": files, "cases": cases}))
