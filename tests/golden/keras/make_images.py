#!/usr/bin/env python3
"""Writes images.json from Keras itself: models of images, and what Keras computes from them.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
  VENV/bin/python tests/golden/keras/make_images.py

Each case holds the model as Keras serialises it, images, labels, start weights, and Keras's per-example loss summed and
metric sum in training, gradients of the mean loss by the trained weights, all weights (moving statistics too) after
each of three optimizer steps on the same batch, and the predictions of evaluation with the start weights. "synchronized"
holds one step of BatchNormalization on a batch that is cut into two unequal parts for two replicas.
"""
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import tensorflow as tf

FOLDER = os.path.dirname(os.path.abspath(__file__))
BATCH, CLASSES, STEPS = 6, 3, 3
layers, optimizers = keras.layers, keras.optimizers


def flat(array):
    return [float(np.float32(x)) for x in np.asarray(array, np.float32).reshape(-1)]


def digits():
    return keras.Sequential([
        layers.Input((8, 8)),
        layers.Reshape((8, 8, 1)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.Conv2D(5, (2, 3), padding="same", use_bias=False),
        layers.BatchNormalization(momentum=0.8, epsilon=0.01, scale=False),
        layers.Activation("relu"),
        layers.Flatten(),
        layers.Dense(7),
        layers.BatchNormalization(center=False),
        layers.Activation("tanh"),
        layers.Dense(CLASSES, activation="softmax"),
    ], name="digits")


def windows():
    return keras.Sequential([
        layers.Input((9, 7, 2)),
        layers.Conv2D(4, (3, 2), strides=(2, 1), padding="same", activation="tanh"),
        layers.AveragePooling2D((2, 2), strides=(1, 2), padding="same"),
        layers.Conv2D(6, 2, dilation_rate=2, padding="same", groups=1, activation="sigmoid"),
        layers.MaxPooling2D((3, 2), strides=(2, 2), padding="same"),
        layers.Dense(4),
        layers.BatchNormalization(),
        layers.Reshape((-1, 4)),
        layers.BatchNormalization(),
        layers.Flatten(),
        layers.Dense(CLASSES, activation="softmax"),
    ], name="windows")


def branches():
    x = layers.Input((6, 6, 3), name="x")
    norm = layers.BatchNormalization(name="norm", momentum=0.7)
    conv = layers.Conv2D(3, 3, padding="same", name="conv")
    left = norm(conv(x))
    right = norm(layers.Conv2D(3, 1, name="point")(left))
    joined = layers.Concatenate(name="joined")([left, layers.Activation("relu", name="relu")(right), x])
    mean = layers.GlobalAveragePooling2D(name="mean")(joined)
    out = layers.Dense(CLASSES, activation="softmax", name="out")(mean)
    return keras.Model(x, out, name="branches")


def run(make, optimizer):
    keras.utils.clear_session()
    model = make()
    rng = np.random.default_rng(len(model.name))
    for weight in model.weights:
        value = rng.normal(0, 0.5, weight.shape)
        weight.assign((np.abs(value) + 0.5 if "variance" in weight.path else value).astype(np.float32))
    start = model.get_weights()
    x = rng.normal(0, 1, (BATCH,) + model.input_shape[1:]).astype(np.float32)
    y = rng.integers(0, CLASSES, BATCH).astype(np.int64)
    loss, metric = keras.losses.SparseCategoricalCrossentropy(), keras.metrics.SparseCategoricalAccuracy()
    case = {
        "name": model.name, "model": json.loads(model.to_json()), "optimizer": keras.optimizers.serialize(optimizer),
        "batch": BATCH, "classes": CLASSES, "dims": list(x.shape), "x": flat(x), "y": [int(v) for v in y],
        "names": [w.path for w in model.weights], "shapes": [list(w.shape) for w in model.weights],
        "trainable": [bool(w.trainable) for w in model.weights], "weights": [flat(w) for w in start],
        "predictions": flat(model(x, training=False)),
    }

    def step():
        with tf.GradientTape() as tape:
            prediction = model(x, training=True)
            mean = loss(y, prediction)
        return prediction, mean, tape.gradient(mean, [v.value for v in model.trainable_variables])

    case["after_step"] = []
    for t in range(STEPS):
        prediction, mean, gradients = step()
        if t == 0:
            metric.update_state(y, prediction)
            case["loss_sum"] = float(mean) * BATCH
            case["metric_sum"] = float(metric.result()) * BATCH
            case["gradients"] = [flat(g) for g in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        case["after_step"].append([flat(w) for w in model.get_weights()])
    return case


def synchronized():
    devices = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(devices[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    rng = np.random.default_rng(3)
    x = rng.normal(1, 2, (5, 3, 2, 4)).astype(np.float32)
    up = rng.normal(0, 1, x.shape).astype(np.float32)
    cut = 2
    with strategy.scope():
        norm = keras.layers.BatchNormalization(synchronized=True, momentum=0.9, name="norm")
        norm.build(x.shape)
    for weight in norm.weights:
        value = rng.normal(0, 0.5, weight.shape)
        weight.assign((np.abs(value) + 0.5 if "variance" in weight.path else value).astype(np.float32))
    start = [flat(w) for w in norm.get_weights()]

    def parts(array):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(array[:cut] if context.replica_id_in_sync_group == 0 else array[cut:]))

    @tf.function
    def step(a, u):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = norm(a, training=True)
            total = tf.reduce_sum(y * u)
        return y, tape.gradient(total, [a] + [v.value for v in norm.trainable_variables])

    y, gradients = strategy.run(step, args=(parts(x), parts(up)))
    local = [[flat(v) for v in strategy.experimental_local_results(g)] for g in gradients]
    return {"dims": list(x.shape), "cut": cut, "x": flat(x), "dy": flat(up), "momentum": 0.9, "epsilon": norm.epsilon,
            "names": [w.path for w in norm.weights], "weights": start,
            "y": [flat(v) for v in strategy.experimental_local_results(y)], "dx": local[0],
            "dgamma": local[1], "dbeta": local[2], "after": [flat(w) for w in norm.get_weights()]}


def main():
    # No Adam: the gradients of what stands before a normalization and cannot change its result are rounding errors, which
    # Adam makes as large as any other.
    together = synchronized()
    cases = [run(digits, optimizers.SGD(0.1)), run(windows, optimizers.SGD(0.1, nesterov=True, momentum=0.5)),
             run(branches, optimizers.SGD(0.05, momentum=0.9))]
    with open(os.path.join(FOLDER, "images.json"), "w") as out:
        json.dump({"tensorflow": tf.__version__, "keras": keras.__version__, "cases": cases,
                   "synchronized": together}, out)


if __name__ == "__main__":
    main()
