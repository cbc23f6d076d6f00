#!/usr/bin/env python3
"""Runs a script under Keras 2.2 or 2.6 to 2.12: PYTHONPATH=FOLDER old_keras.py [--graph] SCRIPT ARGUMENT...

FOLDER has the unpacked wheel of that Keras (`pip install --no-deps --target FOLDER keras==2.9.0`; 2.6 needs keras_preprocessing too).
The interpreter is Python 3.11 with tensorflow-cpu 2.13.1 and numpy 1.24.3, and PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python. What
these releases of Keras expect of Python and TensorFlow, and what newer ones lack, is given back here. Keras 2.2.4 takes --graph, scipy
and keras_applications, and `import tensorflow.compat.v1 as tf` in its backend/tensorflow_backend.py and callbacks.py.
"""
import collections
import collections.abc
import inspect
import runpy
import sys

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(function):
    spec = inspect.getfullargspec(function)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


class Saver:
    """Stands for TrackableSaver: nothing is saved here."""

    def __init__(self, *args, **kwargs):
        pass


def repair(internal):
    """Repairs one of TensorFlow's modules `__internal__`."""
    tracking = internal.tracking
    if not hasattr(tracking, "TrackableSaver"):
        tracking.TrackableSaver = Saver
    if hasattr(tracking, "ObjectGraphView"):
        present = tracking.ObjectGraphView

        class View(present):
            def __init__(self, root, **kwargs):
                present.__init__(self, root)

        tracking.ObjectGraphView = View
    if not hasattr(internal.function, "defun_with_attributes"):
        internal.function.defun_with_attributes = lambda func=None, **kwargs: func


def without_gpu_kernel(layer):
    """The layer's function of two kernels cannot be made any more; the formula alone is the same."""
    make = layer.__init__

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self._could_use_gpu_kernel = False

    layer.__init__ = __init__


def use_graphs(tf):
    """Gives back what Keras before 2.3 needs, which knows graphs alone."""
    from tensorflow.python.framework import ops
    for name in ("Iterable", "Mapping", "MutableMapping", "Sequence", "Callable"):
        setattr(collections, name, getattr(collections.abc, name))
    ops._TensorLike = ops.Tensor
    tf.compat.v1.disable_eager_execution()


def main():
    if not hasattr(inspect, "ArgSpec"):
        inspect.ArgSpec = ArgSpec
        inspect.getargspec = getargspec
    import tensorflow as tf
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "--graph":
        sys.argv = sys.argv[1:]
        use_graphs(tf)
    else:
        repair(tf.__internal__)
        repair(tf.compat.v2.__internal__)
    import keras
    without_gpu_kernel(keras.layers.LSTM)
    without_gpu_kernel(keras.layers.GRU)
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
