#!/usr/bin/env python3
"""Writes on_read.json: what TensorFlow's variables do under each synchronization and aggregation.

  python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0
  VENV/bin/python tests/golden/on_read/make.py

Each case is a variable under a strategy with so many replicas, and a story of steps, one after another. A step has the
values of all replicas behind it ("each"), what is read in cross-replica context ("value"), or the class of the error
that it raised. In replica context replica i assigns or adds 3 (i + 1); in cross-replica context 7 is assigned, 1 added.
"restore" reads back what "save" wrote, after every replica has been given another value.
"""
import json
import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf

FOLDER = os.path.dirname(os.path.abspath(__file__))
SYNC = tf.VariableSynchronization
AGGREGATION = tf.VariableAggregation
REPLICAS_MAX = 4


def strategies():
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * REPLICAS_MAX)
    devices = [f"CPU:{i}" for i in range(REPLICAS_MAX)]
    for replicas in (1, 2, 3, 4):
        yield "mirrored", replicas, tf.distribute.MirroredStrategy(devices[:replicas])
    for replicas in (1, 2):
        yield "central_storage", replicas, tf.distribute.experimental.CentralStorageStrategy(devices[:replicas], "CPU:0")
    yield "one_device", 1, tf.distribute.OneDeviceStrategy("CPU:0")


class Story:
    def __init__(self, strategy, variable, prefix):
        self.strategy, self.variable, self.prefix = strategy, variable, prefix

    def in_replicas(self, name):
        def update():
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            getattr(self.variable, name)(tf.cast(3 * (number + 1), self.variable.dtype))
        tf.function(lambda: self.strategy.run(update))()

    def across(self, name, number):
        with self.strategy.scope():
            getattr(self.variable, name)(tf.cast(number, self.variable.dtype))

    def give_each_another_value(self):
        for value in self.strategy.experimental_local_results(self.variable):
            value.assign(tf.cast(50, self.variable.dtype))

    def restore(self):
        self.give_each_another_value()
        tf.train.Checkpoint(v=self.variable).read(self.prefix)

    def saved(self):
        reader = tf.train.load_checkpoint(self.prefix)
        return reader.get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").tolist()

    def step(self, name, act):
        step = {"step": name}
        try:
            act()
        except Exception as error:  # pylint: disable=broad-except
            step["error"] = type(error).__name__
            return step
        step["each"] = [value.numpy().tolist() for value in self.strategy.experimental_local_results(self.variable)]
        try:
            with self.strategy.scope():
                step["value"] = self.variable.read_value().numpy().tolist()
        except Exception as error:  # pylint: disable=broad-except
            step["value_error"] = type(error).__name__
        if name == "save":
            step["saved"] = self.saved()
        return step

    def tell(self):
        return [
            self.step("made", lambda: None),
            self.step("replica assign", lambda: self.in_replicas("assign")),
            self.step("replica assign_add", lambda: self.in_replicas("assign_add")),
            self.step("assign 7", lambda: self.across("assign", 7)),
            self.step("assign_add 1", lambda: self.across("assign_add", 1)),
            self.step("assign_sub 1", lambda: self.across("assign_sub", 1)),
            self.step("replica assign", lambda: self.in_replicas("assign")),
            self.step("save", lambda: tf.train.Checkpoint(v=self.variable).write(self.prefix)),
            self.step("restore", self.restore),
        ]


def main():
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, replicas, strategy in strategies():
            for sync in (SYNC.NONE, SYNC.ON_WRITE, SYNC.ON_READ):
                for aggregation in (AGGREGATION.NONE, AGGREGATION.SUM, AGGREGATION.MEAN, AGGREGATION.ONLY_FIRST_REPLICA):
                    for dtype, initial in ((tf.float32, 2), (tf.int64, 5)):
                        case = {"strategy": kind, "replicas": replicas, "synchronization": sync.name,
                                "aggregation": aggregation.name, "dtype": dtype.name, "initial": initial}
                        cases.append(case)
                        try:
                            with strategy.scope():
                                variable = tf.Variable(initial, dtype=dtype, trainable=False, synchronization=sync,
                                                       aggregation=aggregation)
                        except Exception as error:  # pylint: disable=broad-except
                            case["error"] = type(error).__name__
                            continue
                        case["story"] = Story(strategy, variable, os.path.join(folder, str(len(cases)))).tell()
    with open(os.path.join(FOLDER, "on_read.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
