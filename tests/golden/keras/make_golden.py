#!/usr/bin/env python3
"""Writes serialized_forms.json and training.json from Keras itself.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
  VENV/bin/python tests/golden/keras/make_golden.py

training.json holds, per case: the model, optimizer, loss and metrics as Keras serialises them, a batch, start weights,
and what Keras computes from them: per-example loss summed, metric sums, predictions, the gradient of the mean loss and
the weights after each of three optimizer steps on the same batch.
"""
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import tensorflow as tf

FOLDER = os.path.dirname(os.path.abspath(__file__))
BATCH, FEATURES, CLASSES, STEPS = 7, 11, 5, 3


def layers(*hidden, last="softmax", hide_logits=False):
    """Keras takes the values before a final softmax or sigmoid for the loss, unless another layer hides them."""
    result = [keras.layers.Input((FEATURES,))]
    for units, activation in hidden:
        result.append(keras.layers.Dense(units, activation=activation))
        result.append(keras.layers.Dropout(0.0))
    result.append(keras.layers.Dense(CLASSES, activation=last))
    if hide_logits:
        result.append(keras.layers.Flatten())
    return result


def flat(array):
    return [float(x) for x in np.asarray(array, np.float32).reshape(-1)]


def run(name, model_layers, optimizer, loss, metric, sparse):
    keras.utils.clear_session()
    rng = np.random.default_rng(len(name) * 1000 + ord(name[0]))
    model = keras.Sequential(model_layers, name=name)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape).astype(np.float32))
    x = rng.normal(0, 1, (BATCH, FEATURES)).astype(np.float32)
    classes = rng.integers(0, CLASSES, BATCH)
    y = classes.astype(np.int64) if sparse else np.eye(CLASSES, dtype=np.float32)[classes]
    case = {
        "name": name,
        "model": json.loads(model.to_json()),
        "optimizer": keras.optimizers.serialize(optimizer),
        "loss": keras.losses.serialize(loss),
        "metric": keras.metrics.serialize(metric),
        "batch": BATCH,
        "features": FEATURES,
        "classes": CLASSES,
        "sparse": sparse,
        "x": flat(x),
        "y": [int(v) for v in classes] if sparse else flat(y),
        "weights": [flat(w) for w in model.get_weights()],
        "shapes": [list(w.shape) for w in model.weights],
    }

    # Built as a graph, so that Keras finds the softmax below its output, as it does in fit().
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            prediction = model(x, training=True)
            mean = loss(y, prediction)
        return prediction, mean, tape.gradient(mean, model.trainable_variables)

    prediction, mean, gradients = step()
    metric.update_state(y, prediction)
    case["predictions"] = flat(prediction)
    case["loss_sum"] = float(mean) * BATCH
    case["metric_sum"] = float(metric.result()) * BATCH
    case["gradients"] = [flat(g) for g in optimizer._clip_gradients(gradients)]
    case["after_step"] = []
    for _ in range(STEPS):
        _, _, gradients = step()
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        case["after_step"].append([flat(w) for w in model.get_weights()])
    return case


def main():
    losses, metrics, optimizers = keras.losses, keras.metrics, keras.optimizers
    relu = [(9, "relu"), (6, "relu")]
    cases = [
        run("mnist_mlp_small", layers(*relu), optimizers.RMSprop(),
            losses.CategoricalCrossentropy(), metrics.CategoricalAccuracy(name="accuracy"), False),
        run("sparse_adam", layers(*relu), optimizers.Adam(),
            losses.SparseCategoricalCrossentropy(),
            metrics.SparseCategoricalAccuracy(name="accuracy"), True),
        run("smoothing_momentum", layers((8, "tanh"), (4, "sigmoid")),
            optimizers.SGD(0.1, momentum=0.9, nesterov=True),
            losses.CategoricalCrossentropy(label_smoothing=0.1), metrics.CategoricalAccuracy(), False),
        run("logits_adagrad", layers((8, "linear"), last="linear"), optimizers.Adagrad(0.05),
            losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics.SparseCategoricalAccuracy(), True),
        run("sigmoid_scores", layers((8, "relu"), last="sigmoid"),
            optimizers.RMSprop(0.01, momentum=0.5, centered=True),
            losses.CategoricalCrossentropy(), metrics.CategoricalAccuracy(), False),
        run("probabilities", layers((8, "relu"), hide_logits=True), optimizers.SGD(0.05, momentum=0.5),
            losses.CategoricalCrossentropy(), metrics.CategoricalAccuracy(), False),
        run("amsgrad_sparse_scores", layers((8, "relu"), last="sigmoid", hide_logits=True),
            optimizers.Adam(0.01, amsgrad=True), losses.SparseCategoricalCrossentropy(),
            metrics.SparseCategoricalAccuracy(), True),
    ]
    clipped = [
        ("clipnorm_sgd", optimizers.SGD(0.5, clipnorm=0.05)),
        ("global_clipnorm_adamax", optimizers.Adamax(0.01, global_clipnorm=0.1)),
        ("unclipped_nadam", optimizers.Nadam(0.01, global_clipnorm=1e6)),
        ("clipvalue_ftrl", optimizers.Ftrl(0.1, clipvalue=0.01)),
        ("decayed_adamw", optimizers.AdamW(0.01, weight_decay=0.1, clipnorm=0.1)),
        ("scheduled_adamw", optimizers.AdamW(optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), weight_decay=0.1)),
        ("averaged_adadelta", optimizers.Adadelta(0.5, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)),
    ]
    cases += [run(name, layers((5, "tanh")), optimizer, losses.CategoricalCrossentropy(),
                  metrics.CategoricalAccuracy(), False) for name, optimizer in clipped]
    with open(os.path.join(FOLDER, "training.json"), "w") as out:
        json.dump({"tensorflow": tf.__version__, "keras": keras.__version__, "cases": cases}, out)

    keras.utils.clear_session()
    model = keras.Sequential([
        keras.layers.Input((784,)), keras.layers.Dense(256, activation="relu"),
        keras.layers.Dropout(0.4), keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.3), keras.layers.Dense(10, activation="softmax")])
    image = keras.Sequential([
        keras.layers.Input((28, 28)), keras.layers.Flatten(),
        keras.layers.Dense(3, kernel_initializer="he_normal", bias_initializer=keras.initializers.Constant(0.5)),
        keras.layers.Activation("tanh")])
    forms = {
        "models": [json.loads(model.to_json()), json.loads(image.to_json())],
        "optimizers": [optimizers.serialize(o) for o in
                       (optimizers.SGD(), optimizers.Adagrad(), optimizers.RMSprop(), optimizers.Adam(),
                        optimizers.AdamW(), optimizers.Adamax(), optimizers.Nadam(), optimizers.Adadelta(),
                        optimizers.Ftrl())],
        "losses": [losses.serialize(l) for l in
                   (losses.CategoricalCrossentropy(), losses.SparseCategoricalCrossentropy(from_logits=True))],
        "metrics": [metrics.serialize(m) for m in
                    (metrics.CategoricalAccuracy(), metrics.SparseCategoricalAccuracy(name="acc"))],
    }
    with open(os.path.join(FOLDER, "serialized_forms.json"), "w") as out:
        json.dump(forms, out, indent=1)


if __name__ == "__main__":
    main()
