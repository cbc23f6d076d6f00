"""A functional model with two inputs and a mask: writes two_inputs.model.json, which two_inputs.json trains.

In Keras the training would be

    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="binary_crossentropy", metrics=["accuracy", "AUC"])
    model.fit([words, numbers], labels, batch_size=16, epochs=6)
"""
import keras
from keras import layers

words = keras.Input((12,), dtype="int32", name="words")
numbers = keras.Input((3,), name="numbers")
x = layers.Embedding(50, 8, mask_zero=True, name="table")(words)
x = layers.LSTM(8, name="lstm")(x)
x = layers.Concatenate(name="both")([x, layers.Dense(4, activation="relu", name="wide")(numbers)])
model = keras.Model([words, numbers], layers.Dense(1, activation="sigmoid", name="answer")(x))

with open("two_inputs.model.json", "w", encoding="utf-8") as file:
    file.write(model.to_json())
