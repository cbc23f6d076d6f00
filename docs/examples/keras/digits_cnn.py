"""A convolutional network as a Sequential model: writes digits_cnn.model.json, which digits_cnn.json trains.

In Keras the training would be

    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images / 255, labels, batch_size=32, epochs=6, validation_split=0.2)
"""
import keras
from keras import layers

model = keras.Sequential([
    keras.Input((8, 8, 1)),
    layers.Conv2D(8, 3, padding="same", activation="relu"),
    layers.BatchNormalization(momentum=0.8),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dropout(0.2),
    layers.Dense(4, activation="softmax"),
])

with open("digits_cnn.model.json", "w", encoding="utf-8") as file:
    file.write(model.to_json())
