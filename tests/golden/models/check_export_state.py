#!/usr/bin/env python3
"""Goes on in Keras with the training that `export` wrote: check_export_state.py DIRECTORY...

The test ExportsOfTrained prints the directories, such as cohort_state_k3.15_restore: m.keras, m.weights.h5 and the
checkpoint m, of the training that restore_k3.15.zip describes in restore.json. Restores each file by Keras's own calls,
with assert_consumed() where there is one, and trains the next batches: the losses must be those that Keras had, and not
those without the optimizer's state. What came out goes into restored_exports.json of this folder, with the SHA-256 of the
files: the test expects the same bytes. Run once with Keras 2.15 and once with Keras 3.15, each on TensorFlow, with all
directories; each takes also the checkpoints whose models the other Keras wrote.
"""
import hashlib
import json
import os
import sys
import warnings
import zipfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import keras
import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "restored_exports.json")
FILES = ("m.keras", "m.weights.h5", "m.index", "m.data-00000-of-00001")
IS_KERAS_2 = keras.__version__ < "3"
LOSS_TOLERANCE = 1e-5
L = keras.layers


def build(mask):
    ids = keras.Input((6,), dtype="int32", name="ids")
    x = keras.Input((4,), name="x")
    h = L.LSTM(5, name="lstm")(L.Embedding(12, 4, mask_zero=mask, name="emb")(ids))
    d = L.BatchNormalization(momentum=0.9, name="bn")(L.Dense(6, "relu", name="d1")(x))
    return keras.Model([ids, x], L.Dense(3, name="out")(L.Concatenate(name="cat")([h, d])), name="small")


def compiled(golden, built=True):
    keras.backend.clear_session()
    model = build(golden["mask_zero"])
    config = golden["optimizer"]["config"]
    if golden["optimizer"]["class_name"] == "SGD":
        optimizer = keras.optimizers.SGD(config["learning_rate"], momentum=config["momentum"])
    else:
        optimizer = keras.optimizers.Adam(config["learning_rate"])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if built:
        optimizer.build(model.trainable_variables)
    return model


def array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def next_losses(model, golden):
    losses = []
    for step in golden["next"]:
        model.reset_metrics()
        inputs = [array(one) for one in step["inputs"]]
        losses.append(float(np.ravel(model.train_on_batch(inputs, array(step["target"])))[0]))
    return losses


def expect_goes_on(model, golden, what):
    """Compares the next losses, of which Keras's Adam with an Embedding differs between its versions."""
    losses = next_losses(model, golden)
    far = np.abs(np.array(losses) - [step["loss"] for step in golden["next"]]).max()
    lost = np.abs(np.array(losses) - golden["losses_if_slots_lost"])[1:].min()
    assert far < LOSS_TOLERANCE and lost > 10 * LOSS_TOLERANCE, (what, far, lost, losses)
    print(f"  {what}: goes on, {far:.1e} from Keras's losses, {lost:.1e} from those without the state")
    return [float(np.float32(loss)) for loss in losses]


def expect_state(model, golden, what):
    """Compares weights, slots and steps with those of the file of the other Keras."""
    layers = {layer.name: layer for layer in model.layers}
    numbers = {id(variable): i for i, variable in enumerate(model.trainable_variables)}

    def variable_of(one):
        found = [v for v in layers[one["layer"]].weights
                 if (getattr(v, "path", v.name)).split(":")[0].endswith(one["name"])]
        assert len(found) == 1, (one["layer"], one["name"], found)
        return found[0]

    def expect(value, data, name):
        np.testing.assert_array_equal(np.ravel(np.array(value)), np.array(data, "float32"), name)

    for one in golden["weights"]:
        expect(variable_of(one), one["data"], one["name"])
    optimizer = model.optimizer
    for one in golden["slots"]:
        number = numbers[id(variable_of(one))]
        if "v" in one:
            expect(optimizer._momentums[number], one["m"], one["name"])
            expect(optimizer._velocities[number], one["v"], one["name"])
        else:
            expect(optimizer.momentums[number], one["m"], one["name"])
    assert int(optimizer.iterations) == golden["iterations"]
    print(f"  {what}: the same weights, slots and steps")


def check_own(directory, golden, restored):
    path = os.path.join(directory, "m.keras")
    restored["load_model(m.keras)"] = expect_goes_on(keras.models.load_model(path), golden, "load_model")
    model = compiled(golden)
    model.load_weights(os.path.join(directory, "m.weights.h5"))
    restored["load_weights(m.weights.h5)"] = expect_goes_on(model, golden, "load_weights(m.weights.h5)")
    prefix = os.path.join(directory, "m")
    model = compiled(golden)
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(prefix).assert_consumed()
    restored["Checkpoint(model, optimizer).restore(m).assert_consumed()"] = expect_goes_on(
        model, golden, "restore(m).assert_consumed()")
    model = compiled(golden)
    tf.train.Checkpoint(model=model).restore(prefix).assert_consumed()
    restored["Checkpoint(model).restore(m).assert_consumed()"] = expect_goes_on(
        model, golden, "Checkpoint(model=model).restore(m).assert_consumed()")
    if not IS_KERAS_2:
        return
    model = compiled(golden)
    model.load_weights(prefix).assert_existing_objects_matched()
    restored["load_weights(m).assert_existing_objects_matched()"] = expect_goes_on(
        model, golden, "load_weights(m)")
    # The slots are made by the first step, after the call.
    model = compiled(golden, built=False)
    status = tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(prefix)
    restored["Checkpoint(model, optimizer).restore(m), before the slots are made"] = expect_goes_on(
        model, golden, "restore(m) before the slots are made")
    status.assert_consumed()


def check_others(directory, golden, restored):
    """Restores the checkpoint of a model that the other Keras wrote."""
    prefix = os.path.join(directory, "m")
    if not IS_KERAS_2 and golden["mask_zero"]:
        # The model has operations for the mask, which only a file of Keras 3 lists.
        model = compiled(golden)
        status = tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(prefix)
        try:
            status.assert_consumed()
        except AssertionError:
            print("  not consumed, as the log says")
            return
        raise AssertionError("consumed although the log says otherwise")
    model = compiled(golden)
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(prefix).assert_consumed()
    expect_state(model, golden, "restore(m).assert_consumed()")
    restored["Checkpoint(model, optimizer).restore(m).assert_consumed()"] = "the same weights, slots and steps"


def main():
    warnings.simplefilter("error", UserWarning)  # Keras warns of an optimizer's state that it skips
    known = {}
    if os.path.exists(TARGET):
        with open(TARGET, encoding="utf-8") as file:
            known = json.load(file)
    for directory in sys.argv[1:]:
        name = os.path.basename(os.path.normpath(directory)).removeprefix("cohort_state_")
        pack, description = name.split("_", 1)
        with zipfile.ZipFile(os.path.join(HERE, f"restore_{pack}.zip")) as archive:
            golden = json.loads(archive.read(description + ".json"))
        print(f"Keras {keras.__version__}: {name}")
        sums = {}
        for file in FILES:
            with open(os.path.join(directory, file), "rb") as opened:
                sums[file] = hashlib.sha256(opened.read()).hexdigest()
        entry = known.setdefault(name, {})
        if entry.get("sha256") != sums:
            entry.update({"sha256": sums, "restored": {}})
        restored = entry["restored"][f"keras {keras.__version__}"] = {}
        is_own = pack.startswith("k2") == IS_KERAS_2
        (check_own if is_own else check_others)(directory, golden, restored)
    with open(TARGET, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1, sort_keys=True)
        file.write("\n")


main()
