"""TensorFlow's ParameterServerStrategy on the workloads of cohort_bench step, embedding and assign_add.

One process is the chief and starts the others: tensorflow_peer.py CASE [OPTIONS]. Prints one JSON line with the rate.
The data is prepared before the clock starts, the first epoch is a warm-up, and a closure is one step, as on our side.
"""

import argparse
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def serve():
    """A worker or ps: serves until it is killed."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()


class Cluster:
    """The other processes and the strategy of this one."""

    def __init__(self, ps, workers, max_shards):
        ports = free_ports(1 + ps + workers)
        address = [f"127.0.0.1:{port}" for port in ports]
        spec = {"chief": address[:1], "ps": address[1 : 1 + ps], "worker": address[1 + ps :]}
        self.children = []
        for role, count in (("ps", ps), ("worker", workers)):
            for index in range(count):
                config = {"cluster": spec, "task": {"type": role, "index": index}}
                environment = dict(os.environ, TF_CONFIG=json.dumps(config))
                self.children.append(
                    subprocess.Popen([sys.executable, __file__, "serve"], env=environment)
                )
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": spec, "task": {"type": "chief", "index": 0}}
        )
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        partitioner = None
        if max_shards > 1:
            partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
                max_shards=max_shards
            )
        self.strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def stop(self):
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait()


def read_idx(name):
    directory = os.environ.get("COHORT_DATA_DIR")
    if not directory:
        sys.exit("COHORT_DATA_DIR is not set; it must hold mnist/*.gz")
    with gzip.open(os.path.join(directory, "mnist", name)) as file:
        data = file.read()
    dimensions = data[3]
    shape = np.frombuffer(data, ">i4", dimensions, 4)
    return np.frombuffer(data, np.uint8, -1, 4 + 4 * dimensions).reshape(shape)


def timed_epochs(cluster, step, iterator, steps, epochs):
    """Steps per second of each epoch but the first."""
    rates = []
    for epoch in range(epochs):
        start = time.perf_counter()
        for _ in range(steps):
            cluster.coordinator.schedule(step, args=(iterator,))
        cluster.coordinator.join()
        if epoch > 0:
            rates.append(steps / (time.perf_counter() - start))
    return rates


def mnist(cluster, options):
    import tensorflow as tf
    import tf_keras as keras

    def images(name):
        return read_idx(name).reshape(-1, 784).astype(np.float32) / 255

    x, y = images("train-images-idx3-ubyte.gz"), read_idx("train-labels-idx1-ubyte.gz")
    y = np.eye(10, dtype=np.float32)[y]
    with cluster.strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Dense(256, activation="relu", input_shape=(784,)),
                keras.layers.Dropout(0.4),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        optimizer = keras.optimizers.legacy.RMSprop(0.001, rho=0.9)

    def dataset():
        rows = tf.data.Dataset.from_tensor_slices((x, y))
        return rows.shuffle(60000).batch(128, drop_remainder=True).repeat().prefetch(4)

    def replica(images, labels):
        with tf.GradientTape() as tape:
            predicted = model(images, training=True)
            loss = tf.reduce_mean(keras.losses.categorical_crossentropy(labels, predicted))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @tf.function
    def step(iterator):
        cluster.strategy.run(replica, args=next(iterator))

    iterator = iter(cluster.coordinator.create_per_worker_dataset(dataset))
    steps = len(x) // 128
    rates = timed_epochs(cluster, step, iterator, steps, options.epochs)
    predicted = model(tf.constant(images("t10k-images-idx3-ubyte.gz")), training=False)
    labels = read_idx("t10k-labels-idx1-ubyte.gz")
    accuracy = float(np.mean(np.argmax(predicted.numpy(), axis=1) == labels))
    return {"value": statistics.median(rates), "unit": "steps/s", "test_accuracy": accuracy}


def read_click_log(path, buckets):
    """Columns of a Criteo log: log(1 + integer), category modulo its bucket, label."""
    integers, categories, labels = [], [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            labels.append(int(fields[0]))
            integers.append([max(int(field), 0) if field else 0 for field in fields[1:14]])
            categories.append([int(field, 16) if field else 0 for field in fields[14:]])
    ids = (np.array(categories, np.int64) % np.array(buckets)).astype(np.int32)
    return np.log1p(np.array(integers, np.float32)), ids, np.array(labels, np.int32)


def embedding(cluster, options):
    import tensorflow as tf
    import tf_keras as keras

    buckets = json.loads(options.buckets)
    dense, ids, labels = read_click_log(options.click_log, buckets)
    with cluster.strategy.scope():
        tables = [
            tf.Variable(tf.random.uniform([rows, options.dim], -0.05, 0.05), name=f"table_{i}")
            for i, rows in enumerate(buckets)
        ]
        features = 13 + len(buckets) * options.dim
        deep = keras.Sequential(
            [
                keras.layers.Dense(256, activation="relu", input_shape=(features,)),
                keras.layers.Dense(128, activation="relu"),
            ]
        )
        click = keras.layers.Dense(2, activation="softmax")
        click.build((None, features + 128))
        optimizer = keras.optimizers.legacy.Adagrad(0.05)

    def parts(variable):
        return list(getattr(variable, "variables", [variable]))

    variables = [part for table in tables for part in parts(table)]
    for dense_variable in deep.trainable_variables + click.trainable_variables:
        variables += parts(dense_variable)

    def dataset():
        rows = tf.data.Dataset.from_tensor_slices((dense, ids, labels))
        return rows.batch(options.batch, drop_remainder=True).repeat().prefetch(4)

    def replica(integers, categories, label):
        with tf.GradientTape() as tape:
            rows = [
                tf.nn.embedding_lookup(table, categories[:, i]) for i, table in enumerate(tables)
            ]
            wide = tf.concat([integers] + rows, axis=1)
            predicted = click(tf.concat([wide, deep(wide)], axis=1))
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(label, predicted))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @tf.function
    def step(iterator):
        cluster.strategy.run(replica, args=next(iterator))

    iterator = iter(cluster.coordinator.create_per_worker_dataset(dataset))
    steps = len(labels) // options.batch
    rates = timed_epochs(cluster, step, iterator, steps, options.epochs)
    return {"value": statistics.median(rates) * options.batch, "unit": "examples/s"}


def assign_add(cluster, options):
    import tensorflow as tf

    elements = 2_500_000
    with cluster.strategy.scope():
        variable = tf.Variable(tf.zeros([elements]))

    @tf.function
    def step():
        variable.assign_add(tf.ones([elements]))

    rates = []
    for repeat in range(6):
        start = time.perf_counter()
        for _ in range(options.adds):
            cluster.coordinator.schedule(step)
        cluster.coordinator.join()
        if repeat > 0:
            rates.append(options.adds * 10 / (time.perf_counter() - start))
    return {"value": statistics.median(rates), "unit": "MB/s"}


CASES = {"mnist": mnist, "embedding": embedding, "assign_add": assign_add}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["serve", *CASES])
    parser.add_argument("--ps", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--adds", type=int, default=50)
    parser.add_argument("--click_log", help="file of rows")
    parser.add_argument("--buckets", help="rows of each table, a JSON list")
    options = parser.parse_args()
    if options.case == "serve":
        serve()
        return
    cluster = Cluster(options.ps, options.workers, options.ps if options.case == "embedding" else 1)
    try:
        result = CASES[options.case](cluster, options)
    finally:
        cluster.stop()
    print(json.dumps({"peer": "tensorflow", "case": options.case, **result}), flush=True)
    os._exit(0)  # the coordinator's threads would go on looking for its workers


if __name__ == "__main__":
    main()
