"""Makes text_vectorization.json: what Keras's TextVectorization does to texts.

Made with tensorflow-cpu 2.21.0 and keras 3.15.1: python make_text.py > text_vectorization.json
"""

import json

import keras
import tensorflow as tf

CORPUS = [
    "The cat sat on the mat.", "the dog; the CAT!", "A man, a plan, a canal: Panama", "",
    "  tabs\tand\nlines  and   blanks ", "don't stop -- me_now", "caf\u00e9 \u00c9t\u00e9 na\u00efve",
    "\u4e2d\u6587 \u4e2d", "x", "@home #1 50% (ok) [ok] {ok} ~ok~ `ok` 'ok' \"ok\" <ok> ok/ok ok\\ok ok|ok ok^ok",
]
TEXTS = ["the cat and the plan", "unknown words ONLY", "", "me_now caf\u00e9! \u4e2d a", "a a a a a a a a a"]


def case(**config):
    layer = keras.layers.TextVectorization(**config)
    layer.adapt(tf.data.Dataset.from_tensor_slices(CORPUS).batch(3))
    out = layer(tf.constant(TEXTS))
    if isinstance(out, tf.RaggedTensor):
        out = out.to_list()
    else:
        out = keras.ops.convert_to_numpy(out).tolist()
    return {"config": config, "vocabulary": layer.get_vocabulary(include_special_tokens=False), "outputs": out}


cases = [
    case(ragged=True),
    case(ragged=True, standardize=None),
    case(ragged=True, standardize="lower"),
    case(ragged=True, standardize="strip_punctuation"),
    case(ragged=True, split=None),
    case(ragged=True, split="character"),
    case(ragged=True, ngrams=2),
    case(ragged=True, ngrams=3, max_tokens=20),
    case(output_sequence_length=3),
    case(output_sequence_length=12, max_tokens=5),
    case(output_mode="multi_hot"),
    case(output_mode="count", max_tokens=9),
]
print(json.dumps({"keras": keras.__version__, "tensorflow": tf.__version__, "corpus": CORPUS, "texts": TEXTS,
                  "cases": cases}, ensure_ascii=True, indent=None))
