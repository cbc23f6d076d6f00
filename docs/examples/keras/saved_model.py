"""A model that was compiled and trained in Keras: writes saved_model.keras, with which saved_model.json goes on.

saved_model.h5 is the same model in the older format; a job takes it in the same way.
"""
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).uniform(-1, 1, (512, 4)).astype("float32")
y = x[:, :1] - 2 * x[:, 1:2] + 0.5 * x[:, 2:3]

model = keras.Sequential([
    keras.Input((4,)),
    layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(1e-4)),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.AdamW(0.01, clipnorm=1.0), loss=keras.losses.Huber(delta=0.5), metrics=["mae"])
model.fit(x, y, batch_size=32, epochs=20, verbose=0)
print(model.evaluate(x, y, verbose=0))
model.save("saved_model.keras")
model.save("saved_model.h5")
