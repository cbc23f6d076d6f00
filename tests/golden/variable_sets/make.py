#!/usr/bin/env python3
"""Writes the variables of three models, one a line in creation order: name, 1 if trainable, extents. All are float32.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
  VENV/bin/python tests/golden/variable_sets/make.py

resnet50        Keras's own ResNet50: kernels [height, width, in, out]
resnet50_onnx   the same as ONNX's Conv has them: [out, in, height, width]
bert_base       google-research/bert, uncased_L-12_H-768_A-12: its published sizes
wide_and_deep   a linear and a deep model over Criteo's Kaggle click log: 26 tables (the published numbers of categories),
                dimension 1 and 16, 13 numbers, a perceptron of 256, 128, 64
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras

FOLDER = os.path.dirname(os.path.abspath(__file__))
CRITEO = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
          5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]


def resnet50(onnx):
    for v in keras.applications.ResNet50(weights=None).variables:
        if v.dtype != "float32":
            continue  # the seed of a random layer is no variable of the model
        dims = list(v.shape)
        if onnx and len(dims) == 4:
            dims = [dims[3], dims[2], dims[0], dims[1]]
        yield v.path, int(v.trainable), dims


def dense(name, inputs, outputs):
    return [(name + "/kernel", 1, [inputs, outputs]), (name + "/bias", 1, [outputs])]


def norm(name, size):
    return [(name + "/beta", 1, [size]), (name + "/gamma", 1, [size])]


def bert_base(hidden=768, layers=12, inner=3072, vocabulary=30522, positions=512, types=2):
    yield "bert/embeddings/word_embeddings", 1, [vocabulary, hidden]
    yield "bert/embeddings/token_type_embeddings", 1, [types, hidden]
    yield "bert/embeddings/position_embeddings", 1, [positions, hidden]
    yield from norm("bert/embeddings/LayerNorm", hidden)
    for i in range(layers):
        layer = f"bert/encoder/layer_{i}"
        for part in ("query", "key", "value"):
            yield from dense(f"{layer}/attention/self/{part}", hidden, hidden)
        yield from dense(f"{layer}/attention/output/dense", hidden, hidden)
        yield from norm(f"{layer}/attention/output/LayerNorm", hidden)
        yield from dense(f"{layer}/intermediate/dense", hidden, inner)
        yield from dense(f"{layer}/output/dense", inner, hidden)
        yield from norm(f"{layer}/output/LayerNorm", hidden)
    yield from dense("bert/pooler/dense", hidden, hidden)
    yield from dense("cls/predictions/transform/dense", hidden, hidden)
    yield from norm("cls/predictions/transform/LayerNorm", hidden)
    yield "cls/predictions/output_bias", 1, [vocabulary]
    yield "cls/seq_relationship/output_weights", 1, [2, hidden]
    yield "cls/seq_relationship/output_bias", 1, [2]


def wide_and_deep(dimension=16, numbers=13):
    for i, categories in enumerate(CRITEO):
        yield f"wide/C{i + 1}", 1, [categories, 1]
    yield from dense("wide/numbers", numbers, 1)
    for i, categories in enumerate(CRITEO):
        yield f"deep/C{i + 1}", 1, [categories, dimension]
    width = numbers + dimension * len(CRITEO)
    for i, units in enumerate([256, 128, 64, 1]):
        yield from dense(f"deep/dense_{i}", width, units)
        width = units


def write(name, variables):
    with open(os.path.join(FOLDER, name + ".txt"), "w") as out:
        for path, trainable, dims in variables:
            out.write(" ".join([path, str(trainable), *map(str, dims)]) + "\n")


write("resnet50", resnet50(onnx=False))
write("resnet50_onnx", resnet50(onnx=True))
write("bert_base", bert_base())
write("wide_and_deep", wide_and_deep())
