"""Packs ONNX's own operator test cases into golden files for onnx_node_test.cc.

Usage: collect_onnx_node_tests.py NODE_DATA OUT_DIR, where NODE_DATA is onnx/backend/test/data/node of the source
distribution of onnx 1.12 (opset 17). Needs no package. A pack is a sequence of records: a line with a name and a
number of bytes, then the bytes. The names are CASE/model.onnx, CASE/input_0.pb, CASE/output_0.pb and so on.
"""

import pathlib
import re
import sys

OPERATORS = {
    "arithmetic": "add|sub|mul|div|equal|neg",
    "unary": "sqrt|exp|log|relu|sigmoid|tanh",
    "matmul": "matmul|gemm",
    "softmax": "softmax|logsoftmax",
    "loss": "sce",
    "dropout": "dropout_default|training_dropout_zero_ratio",
    "reduce": "reduce_sum|reduce_mean|argmax",
    "movement": "reshape|flatten|transpose|concat|cast|identity|constant",
    "indexing": "gather|onehot",
    "size": "size",
    "convolution": "conv|basic_conv",
    "pooling": "maxpool|averagepool",  # globalaveragepool's models are of opset 1
    "normalization": "batchnorm",
}
# Other operators whose names begin alike; sequences, strings, 16-bit floats; outputs that are NumPy's random numbers.
EXCLUDED = re.compile(
    r"expanded|expand_|_old|reduce_sum_square|matmulinteger|castlike|FLOAT16|STRING|constantofshape|constant_pad"
    r"|gather_elements|gathernd|identity_opt|identity_sequence|relu6")
MAX_CASE_BYTES = 100_000


def files_of(case):
    yield case / "model.onnx"
    yield from sorted((case / "test_data_set_0").glob("*.pb"))


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    for family, operators in OPERATORS.items():
        pattern = re.compile(rf"test_({operators})(_|$)")
        with open(target / f"{family}.pack", "wb") as pack:
            for case in sorted(source.iterdir()):
                if not pattern.match(case.name) or EXCLUDED.search(case.name):
                    continue
                files = list(files_of(case))
                if sum(file.stat().st_size for file in files) > MAX_CASE_BYTES:
                    print("left out for its size:", case.name)
                    continue
                for file in files:
                    content = file.read_bytes()
                    pack.write(f"{case.name}/{file.name} {len(content)}\n".encode())
                    pack.write(content)


if __name__ == "__main__":
    main()
