"""Training steps of the models of cohort_bench compute in PyTorch, eager, on the processor.

pytorch_compute.py --model MODEL --weights FILE [OPTIONS] begins with the weights and the batch that cohort_bench
compute --save has written, makes three steps and shows their first and last loss, then times steps and prints one JSON
line. A convolutional model runs in both memory layouts, and the better one counts.
"""

import argparse
import copy
import json
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

WARM_UP_STEPS = 3
KERAS_EPSILON = 1e-7
NORM_EPSILON = 1e-3


class Weights:
    """Keras's values in the order of the layers, copied into PyTorch's parameters."""

    def __init__(self, arrays):
        self.arrays = iter(arrays)

    def next(self):
        return torch.from_numpy(np.ascontiguousarray(next(self.arrays)))

    def dense(self, layer):
        layer.weight.copy_(self.next().T)
        layer.bias.copy_(self.next())

    def conv(self, layer):
        layer.weight.copy_(self.next().permute(3, 2, 0, 1))

    def norm(self, layer):
        layer.weight.copy_(self.next())
        layer.bias.copy_(self.next())
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.copy_(self.next())
            layer.running_var.copy_(self.next())

    def embedding(self, layer):
        layer.weight.copy_(self.next())

    def attention(self, layer):
        kernels, biases = [], []
        for _ in range(3):
            kernels.append(self.next().flatten(1).T)
            biases.append(self.next().flatten())
        layer.in_proj_weight.copy_(torch.cat(kernels))
        layer.in_proj_bias.copy_(torch.cat(biases))
        layer.out_proj.weight.copy_(self.next().flatten(0, 1).T)
        layer.out_proj.bias.copy_(self.next())

    def lstm(self, layer):
        layer.weight_ih_l0.copy_(self.next().T)
        layer.weight_hh_l0.copy_(self.next().T)
        layer.bias_ih_l0.copy_(self.next())
        layer.bias_hh_l0.zero_()


class MnistMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 256),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )

    def load(self, weights):
        for i in (0, 3, 6):
            weights.dense(self.layers[i])

    def forward(self, x):
        return self.layers(x)


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1 = nn.Conv2d(1, 16, 3, bias=False)
        self.norm_1 = nn.BatchNorm2d(16, eps=NORM_EPSILON)
        self.conv_2 = nn.Conv2d(16, 32, 3, bias=False)
        self.norm_2 = nn.BatchNorm2d(32, eps=NORM_EPSILON)
        self.dropout = nn.Dropout(0.3)
        self.dense_1 = nn.Linear(5 * 5 * 32, 64)
        self.dense_2 = nn.Linear(64, 10)

    def load(self, weights):
        weights.conv(self.conv_1)
        weights.norm(self.norm_1)
        weights.conv(self.conv_2)
        weights.norm(self.norm_2)
        # Keras flattens with the channels last.
        kernel = weights.next().reshape(5, 5, 32, 64).permute(3, 2, 0, 1)
        self.dense_1.weight.copy_(kernel.reshape(64, -1))
        self.dense_1.bias.copy_(weights.next())
        weights.dense(self.dense_2)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm_1(self.conv_1(x)), inplace=True), 2)
        x = functional.max_pool2d(functional.relu(self.norm_2(self.conv_2(x)), inplace=True), 2)
        x = functional.relu(self.dense_1(self.dropout(x.flatten(1))))
        return self.dense_2(x)


class Convolution(nn.Module):
    """A convolution and BatchNormalization. Keras pads a stride of 2 at the end only, PyTorch at both ends; with
    like_keras, which only the comparison of losses sets, the padding is Keras's."""

    like_keras = False

    def __init__(self, inputs, filters, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, filters, size, stride, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(filters, eps=NORM_EPSILON, momentum=0.01)

    def load(self, weights):
        weights.conv(self.conv)
        weights.norm(self.norm)

    def forward(self, x):
        if Convolution.like_keras and self.conv.stride[0] == 2 and self.conv.kernel_size[0] == 3:
            padded = functional.pad(x, (0, 1, 0, 1))
            return self.norm(functional.conv2d(padded, self.conv.weight, stride=2))
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.first = Convolution(inputs, filters, 3, stride)
        self.second = Convolution(filters, filters, 3, 1)
        self.shortcut = Convolution(inputs, filters, 1, stride) if stride > 1 else None

    def load(self, weights):
        self.first.load(weights)
        self.second.load(weights)
        if self.shortcut is not None:
            self.shortcut.load(weights)

    def forward(self, x):
        y = self.second(functional.relu(self.first(x), inplace=True))
        y += x if self.shortcut is None else self.shortcut(x)
        return functional.relu(y, inplace=True)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = Convolution(3, 16, 3, 1)
        blocks, inputs = [], 16
        for stage in range(3):
            for block in range(3):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Block(inputs, 16 << stage, stride))
                inputs = 16 << stage
        self.blocks = nn.ModuleList(blocks)
        self.dense = nn.Linear(64, 10)

    def load(self, weights):
        self.begin.load(weights)
        for block in self.blocks:
            block.load(weights)
        weights.dense(self.dense)

    def forward(self, x):
        x = functional.relu(self.begin(x), inplace=True)
        for block in self.blocks:
            x = block(x)
        return self.dense(x.mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(128, 256)
        layer = nn.TransformerEncoderLayer(
            256, 8, 1024, dropout=0.0, layer_norm_eps=NORM_EPSILON, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.dense = nn.Linear(256, 128)

    def load(self, weights):
        weights.embedding(self.embedding)
        for layer in self.encoder.layers:
            weights.attention(layer.self_attn)
            weights.norm(layer.norm1)
            weights.dense(layer.linear1)
            weights.dense(layer.linear2)
            weights.norm(layer.norm2)
        weights.dense(self.dense)

    def forward(self, ids):
        return self.dense(self.encoder(self.embedding(ids))).flatten(0, 1)


class TextClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(128, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.dense = nn.Linear(128, 8)

    def load(self, weights):
        weights.embedding(self.embedding)
        weights.lstm(self.lstm)
        weights.dense(self.dense)

    def forward(self, ids):
        _, (state, _) = self.lstm(self.embedding(ids))
        return self.dense(state[0])


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 8, sparse=True) for _ in range(26))
        self.deep_1 = nn.Linear(13 + 26 * 8, 64)
        self.deep_2 = nn.Linear(64, 32)
        self.click = nn.Linear(13 + 26 * 8 + 32, 2)

    def load(self, weights):
        for table in self.tables:
            weights.embedding(table)
        for layer in (self.deep_1, self.deep_2, self.click):
            weights.dense(layer)

    def forward(self, numbers, *ids):
        rows = [table(column) for table, column in zip(self.tables, ids)]
        wide = torch.cat([numbers, *rows], 1)
        deep = functional.relu(self.deep_2(functional.relu(self.deep_1(wide))))
        return self.click(torch.cat([wide, deep], 1))


def adam(parameters):
    return torch.optim.Adam(parameters, 0.001, eps=KERAS_EPSILON)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


def rmsprop(parameters):
    return torch.optim.RMSprop(parameters, 0.001, alpha=0.9, eps=KERAS_EPSILON)


def adagrad(parameters):
    return torch.optim.Adagrad(
        parameters, 0.05, initial_accumulator_value=0.1, eps=KERAS_EPSILON
    )


MODELS = {
    "mnist_mlp": (MnistMlp, rmsprop),
    "mnist_cnn": (MnistCnn, adam),
    "resnet20": (ResNet20, sgd),
    "transformer": (Transformer, adam),
    "lstm": (TextClassifier, adam),
    "wide_and_deep": (WideAndDeep, adagrad),
}
CONVOLUTIONAL = ("mnist_cnn", "resnet20")


def read(path, name):
    """The weights in the order of the layers, the inputs, and the labels as class numbers."""
    weights, batch = [], []
    with np.load(path) as file:
        for key in file.files:
            (batch if key.startswith("batch/") else weights).append(file[key])
    labels = batch.pop()
    if labels.dtype == np.float32:
        labels = labels.argmax(1)
    inputs = [torch.from_numpy(each if each.dtype == np.float32 else each.astype(np.int64)) for each in batch]
    if name == "mnist_cnn":
        inputs[0] = inputs[0].unsqueeze(1)
    if name == "resnet20":
        inputs[0] = inputs[0].permute(0, 3, 1, 2).contiguous()
    return weights, inputs, torch.from_numpy(labels.reshape(-1).astype(np.int64))


class Training:
    def __init__(self, model, make_optimizer, inputs, labels):
        self.model, self.inputs, self.labels = model, inputs, labels
        self.optimizer = make_optimizer(model.parameters())

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.model(*self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def measure(self, steps):
        """Medians of the time that a step takes and of the processor time of all threads."""
        for _ in range(WARM_UP_STEPS):
            self.step()
        times, processor_times = [], []
        for _ in range(steps):
            processor_start, start = time.process_time(), time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
            processor_times.append(time.process_time() - processor_start)
        return statistics.median(times), statistics.median(processor_times)


def num_parameters(model):
    """An LSTM of PyTorch has two biases where Keras and the arithmetic have one."""
    return sum(
        each.numel()
        for name, each in model.named_parameters()
        if not name.endswith("bias_hh_l0")
    )


def losses_like_keras(model, make_optimizer, inputs, labels):
    """The losses of the first steps if padding is Keras's and an LSTM has only one bias that moves."""
    Convolution.like_keras = True
    if isinstance(model, TextClassifier):
        model.lstm.bias_hh_l0.requires_grad_(False)
    training = Training(model, make_optimizer, inputs, labels)
    losses = [training.step().item() for _ in range(WARM_UP_STEPS)]
    Convolution.like_keras = False
    return losses


def count_flops(training):
    with FlopCounterMode(display=False) as counter:
        training.step()
    return counter.get_total_flops()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--weights", required=True, help=".npz file of cohort_bench compute --save")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    make_model, make_optimizer = MODELS[options.model]
    arrays, inputs, labels = read(options.weights, options.model)
    model = make_model()
    with torch.no_grad():
        weights = Weights(arrays)
        model.load(weights)
        if next(weights.arrays, None) is not None:
            raise SystemExit(f"{options.weights} has more weights than the model in PyTorch")
    losses = losses_like_keras(copy.deepcopy(model), make_optimizer, inputs, labels)
    measured = {}
    for name in ("default", "channels_last") if options.model in CONVOLUTIONAL else ("default",):
        memory_format = torch.channels_last if name == "channels_last" else torch.preserve_format
        here = copy.deepcopy(model).to(memory_format=memory_format)
        given = [each.clone(memory_format=memory_format) for each in inputs]
        measured[name] = Training(here, make_optimizer, given, labels).measure(options.repeats)
    layout = min(measured, key=measured.get)
    seconds, processor_seconds = measured[layout]
    flops = count_flops(Training(copy.deepcopy(model), make_optimizer, inputs, labels))
    line = {
        "peer": "pytorch",
        "version": torch.__version__,
        "case": f"{options.model}/batch={inputs[0].shape[0]}/threads={options.threads}",
        "value": 1 / seconds,
        "unit": "steps/s",
        "ms_per_step": seconds * 1e3,
        "processor_ms_per_step": processor_seconds * 1e3,
        "layout": layout,
        "ms_of_layouts": {name: each[0] * 1e3 for name, each in measured.items()},
        "mflop_per_step": flops * 1e-6,
        "parameters": num_parameters(model),
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
