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
    "functions": "abs|sign|floor|ceil|round|reciprocal|erf|softplus|softsign|elu|selu|celu|leakyrelu|thresholdedrelu"
                 "|hardsigmoid|hardswish|sin|cos|isnan",
    "logic": "less|less_equal|greater|greater_equal|where|not|and2d|and3d|and4d|and_bcast3v1d|and_bcast3v2d|and_bcast4v2d"
             "|or2d|or3d|or_bcast3v1d|or_bcast3v2d|or_bcast4v2d|xor2d|xor3d|xor_bcast3v1d|xor_bcast3v2d|xor_bcast4v2d",
    "binary": "pow|max|min|sum|mean|mod|prelu|clip",
    "reduce_more": "reduce_max|reduce_min|reduce_prod|reduce_l1|reduce_l2|reduce_sum_square|reduce_log_sum"
                   "|reduce_log_sum_exp|argmin|cumsum|top_k",
    "slicing": "slice|constant_pad|edge_pad|reflect_pad|split|expand|tile|tril|triu|reversesequence",
    "shapes": "squeeze|unsqueeze|shape|range|constantofshape",
    "scattering": "gather_elements|gathernd|scatter_elements|scatternd",
    "transposed": "convtranspose",
    "einsum": "einsum",
    "row_normalization": "layer_normalization|instancenorm",
    "resize": "resize",
    "recurrent": "lstm|gru|rnn|simple_rnn",
}
# Functions as graphs; strings, sequences and types that Cohort lacks; outputs that are NumPy's random numbers; two cases
# for which ONNX's script takes a length that is no whole number, which neither the definition nor ONNX Runtime does.
EXCLUDED = re.compile(r"expanded|_old|FLOAT16|STRING|identity_opt|identity_sequence|int16|uint32|uint64|float16"
                      r"|resize_downsample_scales_(cubic|linear)_align_corners")
MAX_CASE_BYTES = 100_000


def files_of(case):
    yield case / "model.onnx"
    yield from sorted((case / "test_data_set_0").glob("*.pb"))


def at_least_opset_7(name, content):
    """Returns a file's content, in which a model of an opset below 7, the lowest that Cohort reads, is of opset 7.

    ONNX's cases are of the opset that last changed their operator, so the operator is the same in opset 7.
    """
    if name != "model.onnx":
        return content
    # Field 8 of the model, an empty domain or none, and the version; it is the last field.
    return re.sub(rb"(\x42\x04\x0a\x00|\x42\x02)\x10[\x01-\x06]\Z", lambda match: match[1] + b"\x10\x07", content)


def family_of(name):
    """Returns the family of the longest operator's name with which the case's name begins."""
    fits = [(len(operator), family) for family, operators in OPERATORS.items() for operator in operators.split("|")
            if name == f"test_{operator}" or name.startswith(f"test_{operator}_")]
    return max(fits)[1] if fits else None


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    for family in OPERATORS:
        with open(target / f"{family}.pack", "wb") as pack:
            for case in sorted(source.iterdir()):
                if family_of(case.name) != family or EXCLUDED.search(case.name):
                    continue
                files = list(files_of(case))
                if sum(file.stat().st_size for file in files) > MAX_CASE_BYTES:
                    print("left out for its size:", case.name)
                    continue
                for file in files:
                    content = at_least_opset_7(file.name, file.read_bytes())
                    pack.write(f"{case.name}/{file.name} {len(content)}\n".encode())
                    pack.write(content)


if __name__ == "__main__":
    main()
