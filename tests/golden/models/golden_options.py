"""Golden cases of the options that golden_models.py leaves at their defaults.

    python golden_options.py OUT [PREFIX ...]    writes OUT/k2.15/*.json or OUT/k3.15/*.json (by the installed Keras);
                                                 pack.py --add OUT adds them to the packs

The keys of a case are those of golden_models.py, which also draws the inputs. Keras on TensorFlow computes some options on
GPUs alone. Such a case has a twin: a layer that Keras computes on the processor, called on other tensors.
  channels_first      the layer with channels_last, on transposed tensors
  dilation_rate       of a transposed convolution: kernels with zeros between the elements
  axis of classes     the loss or the metric with axis -1, on transposed predictions
The case's config is that of the layer with the option, and its note names the twin.
"""
import golden_models as g                          # first: it sets what TensorFlow reads when it is imported
import numpy as np
import tensorflow as tf
from golden_models import A, BITS, CLASSES, CON, F, I, INI, L, LOSS, MET, REG, U, V3, X

LAST = 'computed by channels_last on transposed tensors'
STUFFED = 'computed with zeros between the elements of the kernel'


class Overlay:
    """The classes of a module, one of them replaced."""
    def __init__(self, home, name, cls): self.home, self.name, self.cls = home, name, cls
    def __getattr__(self, name): return self.cls if name == self.name else getattr(self.home, name)


class Twin:
    """Stands for an object of Keras with other options."""
    base, changed, made_with = None, {}, {}
    def __init__(self, inner=None, **given): self.inner = inner or self.base(**{**given, **self.made_with})
    def __getattr__(self, name): return getattr(self.inner, name)
    def get_config(self): return {**self.inner.get_config(), **self.changed}
    @classmethod
    def from_config(cls, config): return cls(inner=cls.base.from_config({**config, **cls.made_with}))


def to_last(x): return tf.transpose(x, [0, *range(2, len(x.shape)), 1])
def to_first(x): return tf.transpose(x, [0, len(x.shape) - 1, *range(1, len(x.shape) - 1)])


def channels_first(name):
    def call(self, x, **kw): return to_first(self.inner(to_last(x), **kw))
    return type(name, (Twin,), {'base': getattr(L, name), 'changed': {'data_format': 'channels_first'}, 'made_with': {'data_format': 'channels_last'}, '__call__': call})


def stuffed(kernel, rates):
    """The kernel with rate - 1 zeros between the elements of each axis."""
    for axis, rate in enumerate(rates):
        parts = []
        for i in range(kernel.shape[axis]):
            one = tf.gather(kernel, [i], axis=axis)
            parts += [one] if i == 0 else [tf.zeros_like(one)] * (rate - 1) + [one]
        kernel = tf.concat(parts, axis)
    return kernel


def dilated_transpose(name, first):
    def call(self, x, **kw):
        l = self.inner
        if first: x = to_last(x)
        if not l.built: l.build(x.shape)
        value = lambda v: v.value if V3 else v
        kernel = stuffed(tf.convert_to_tensor(value(l.kernel)), l.dilation_rate); more = [0 if l.padding == 'same' else k - 1 for k in kernel.shape[:-2]]
        shape = [x.shape[0], *(s + m for s, m in zip(x.shape[1:-1], more)), l.filters]
        y = l.activation(tf.nn.conv_transpose(x, kernel, shape, 1, l.padding.upper()) + value(l.bias))
        return to_first(y) if first else y
    changed = {'data_format': 'channels_first'} if first else {}
    return type(name, (Twin,), {'base': getattr(L, name), 'changed': changed, 'made_with': {k: 'channels_last' for k in changed}, '__call__': call})


def layer(case, cls, cfg, inputs, twin=None, **k):
    g.L = L if twin is None else Overlay(L, cls, twin)
    try: g.layer('options_' + case, cls, cfg, inputs, rules=True, **k)
    finally: g.L = L


def rules(*names, **more):
    """Every rule of these weights; the constraints change the weights that golden_models draws."""
    made = {}
    for i, n in enumerate(names):
        made.update({n + '_initializer': INI.Constant(.25 + i), n + '_regularizer': REG.L1L2(.02, .03), n + '_constraint': [CON.MaxNorm(.4), CON.MinMaxNorm(.5, .8, .7), CON.UnitNorm()][i % 3]})
        if n in ('bias', 'beta', 'gamma'): made[n + '_constraint'] = CON.MaxNorm(.2 if n == 'bias' else .9)
    return {**made, **more}


def convolutions():
    size = {1: (7,), 2: (5, 6), 3: (4, 3, 4)}
    for d in (1, 2, 3):
        s, cls = size[d], 'Conv%dD' % d
        first = lambda name, cls, cfg, channels=4: layer(name, cls, cfg, F(2, channels, *s), twin=channels_first(cls), note=LAST)
        first('conv%dd_channels_first' % d, cls, lambda: dict(filters=2, kernel_size=2, strides=2, padding='same', activation='tanh', data_format='channels_first', **rules('kernel', 'bias')))
        first('conv%dd_channels_first_groups' % d, cls, dict(filters=4, kernel_size=2, groups=2, dilation_rate=2, use_bias=False, data_format='channels_first'))
        first('conv%dd_transpose_channels_first' % d, cls + 'Transpose', dict(filters=3, kernel_size=3, strides=2, padding='same', activation='relu', data_format='channels_first'), 2)
        first('conv%dd_transpose_channels_first_output_padding' % d, cls + 'Transpose', dict(filters=2, kernel_size=2, strides=2, output_padding=1, data_format='channels_first'), 2)
        if d == 3 and not V3: continue             # the class has the argument in Keras 2, and does not use it
        for pad, is_first in (('valid', False), ('same', True)):
            x, t = ((2, 2, *s) if is_first else (2, *s, 2)), cls + 'Transpose'
            layer('conv%dd_transpose_dilation_%s' % (d, pad), t, dict(filters=3, kernel_size=3 if is_first else 2, dilation_rate=3 if d == 1 else (2, 3, 2)[:d] if V3 else 2, padding=pad, activation='tanh', bias_initializer='ones', **({'data_format': 'channels_first'} if is_first else {})),
                  F(*x), twin=dilated_transpose(t, is_first), note=STUFFED + ('; ' + LAST if is_first else ''))
    for d in (1, 2):
        first = lambda name, cls, cfg: layer(name, cls, cfg, F(2, 3, *size[d]), twin=channels_first(cls), note=LAST)
        first('depthwise_conv%dd_channels_first' % d, 'DepthwiseConv%dD' % d, dict(kernel_size=2, strides=2, padding='same', depth_multiplier=2, activation='tanh', data_format='channels_first'))
        first('separable_conv%dd_channels_first' % d, 'SeparableConv%dD' % d, dict(filters=4, kernel_size=3, depth_multiplier=2, padding='same', activation='tanh', data_format='channels_first'))
        first('separable_conv%dd_channels_first_strides' % d, 'SeparableConv%dD' % d, dict(filters=2, kernel_size=2, strides=2, use_bias=False, data_format='channels_first'))
    for kind in ('Max', 'Average'):
        cls = kind + 'Pooling2D'
        layer(kind.lower() + '_pooling2d_channels_first', cls, dict(pool_size=(3, 2), strides=(2, 1), padding='same', data_format='channels_first'), F(2, 3, 5, 6, c=-2), twin=channels_first(cls), exact=kind == 'Max', note=LAST)


def images():
    if not V3: return                              # these classes have no data_format in Keras 2
    layer('zeropadding1d_channels_first', 'ZeroPadding1D', dict(padding=(1, 3), data_format='channels_first'), F(2, 3, 4), exact=True)
    layer('center_crop_channels_first', 'CenterCrop', dict(height=3, width=2, data_format='channels_first'), F(2, 3, 6, 5), exact=True)
    layer('center_crop_channels_first_larger', 'CenterCrop', dict(height=5, width=4, data_format='channels_first'), F(1, 2, 3, 6))


def normalization():
    k = dict(train=True, gtol=2e-5)
    layer('layernorm_rules', 'LayerNormalization', lambda: dict(axis=[1, 2], epsilon=1e-2, **rules('gamma', 'beta')), F(3, 2, 4, k=2), **k)
    layer('groupnorm_rules', 'GroupNormalization', lambda: dict(groups=2, epsilon=1e-2, **rules('gamma', 'beta')), F(3, 5, 4, k=2), **k)


def recurrent():
    own = lambda: rules('kernel', 'recurrent', 'bias')
    for cls in ('SimpleRNN', 'LSTM', 'GRU'):
        layer(cls.lower() + '_rules', cls, lambda: dict(units=3, return_sequences=True, go_backwards=True, **own()), X)
        cell = getattr(L, cls + 'Cell')
        layer('rnn_%s_rules' % cls.lower(), 'RNN', lambda: dict(cell=cell(3, name='c', dropout=.3, recurrent_dropout=.2, **own()), return_sequences=True, return_state=True), X)
    layer('rnn_stacked_rules', 'RNN', lambda: dict(cell=L.StackedRNNCells([L.LSTMCell(2, name='c0', **own()), L.LSTMCell(3, name='c1', **own())], name='c')), X)
    layer('bidirectional_rules', 'Bidirectional', lambda: dict(layer=L.GRU(2, name='r', return_sequences=True, **own())), X)


def attention():
    qv = {'query': F(2, 3, 6), 'value': F(2, 5, 6)}; two = dict(args=['query', 'value'], call=dict(return_attention_scores=True), wscale=.4)
    layer('mha_rules', 'MultiHeadAttention', lambda: dict(num_heads=2, key_dim=3, value_dim=4, **rules('kernel', 'bias')), qv, **two)
    layer('mha_rules_rows', 'MultiHeadAttention', lambda: dict(num_heads=3, key_dim=2, use_bias=False, kernel_constraint=CON.UnitNorm(axis=[1, 2]), kernel_initializer='ones'), qv, **two)
    layer('gqa_rules', 'GroupQueryAttention', lambda: dict(head_dim=3, num_query_heads=4, num_key_value_heads=2, dropout=.3, activity_regularizer=REG.L2(.1), **rules('kernel', 'bias')), qv, **{**two, 'call': {}})
    act = dict(activity_regularizer=REG.L1L2(.05, .1)); plain = {**two, 'call': {}}
    layer('mha_activity', 'MultiHeadAttention', dict(num_heads=2, key_dim=3, **act), qv, **plain)
    layer('mha_activity_scores', 'MultiHeadAttention', dict(num_heads=2, key_dim=3, **act), qv, **two)
    layer('gqa_activity_scores', 'GroupQueryAttention', dict(head_dim=3, num_query_heads=4, num_key_value_heads=2, use_gate=True, **act), qv, **two)
    layer('lstm_states_activity', 'LSTM', dict(units=3, return_sequences=True, return_state=True, **act), X, note='each output is penalized')
    layer('bidirectional_activity', 'Bidirectional', lambda: dict(layer=L.GRU(2, name='r', **act)), X)
    layer('time_distributed_activity', 'TimeDistributed', lambda: dict(layer=L.Dense(2, name='i', **act)), F(2, 3, 4))
    if V3: return                                  # Keras 3 has the causal mask as an argument of the call alone
    for cls, name in (('Attention', 'attention'), ('AdditiveAttention', 'additive_attention')):
        twin = type(cls, (Twin,), {'base': getattr(L, cls), 'changed': {'causal': True}, 'made_with': {'causal': True}, '__call__': lambda self, x, **kw: self.inner(x, **kw)})
        note = 'Keras 2.15 takes the key of earlier releases, and get_config() leaves it out: added here'
        layer(name + '_causal_key', cls, dict(causal=True), {'query': F(2, 4, 6), 'value': F(2, 4, 6)}, args=[['query', 'value']], call=dict(return_attention_scores=True), twin=twin, gtol=2e-5, note=note)


def classes_last(axis, update):
    """Calls `update` with the axis of the predictions moved to the end."""
    def call(self, y_true, y_pred, **kw): return getattr(self.inner, update)(y_true, tf.experimental.numpy.moveaxis(y_pred, axis, -1), **kw)
    return {'changed': {'axis': axis}, 'made_with': {'axis': -1}, update: call}


def losses():
    if not V3: return                              # Keras 2's class has no axis
    cls, note = 'SparseCategoricalCrossentropy', 'computed by axis -1 on transposed predictions'
    for name, cfg, labels, y, w in (('prob', {}, I(2, 4, hi=3), U(2, 3, 4, lo=.05), A([[1, 2, 0, .5], [3, 1, 1, .2]])), ('logits', dict(from_logits=True), I(2, 2, 3, hi=4), F(2, 2, 4, 3, k=2), None), ('ignore', dict(from_logits=True, ignore_class=1), I(3, 4, hi=3), F(3, 3, 4, k=2), None)):
        axis = 2 if name == 'logits' else 1
        g.LOSS = Overlay(LOSS, cls, type(cls, (Twin,), {'base': getattr(LOSS, cls), **classes_last(axis, '__call__')}))
        for red in ('none', 'sum_over_batch_size'): g.loss('options_scce_axis_%s_%s' % (name, red), cls, dict(axis=axis, reduction=red, **cfg), labels, y, w=w, note=note)
        g.LOSS = LOSS


def metrics():
    metric = lambda name, cls, cfg, updates, **k: g.metric('options_' + name, cls, cfg, updates, **k)
    pair = lambda a: A(np.stack([a, 1 - a], -1)); w4 = A([1, 0, 2, .5]); onehot3 = A(np.eye(3)[[[0, 1], [2, 0]]].transpose(0, 2, 1)); scores = lambda: U(2, 3, 2, lo=.05, hi=.95)
    of = lambda name, fn, cfg, updates: hasattr(LOSS, fn) and metric(name, 'MeanMetricWrapper', dict(fn=getattr(LOSS, fn), **cfg), updates)
    of('huber', 'huber', dict(delta=.3), [(F(4, 3), F(4, 3, k=2)), (F(4, 3), F(4, 3), w4)])
    of('bce_axis', 'binary_crossentropy', dict(axis=1, label_smoothing=.1), [(pair(BITS), U(4, 3, 2, lo=.1, hi=.9)), (pair(1 - BITS), U(4, 3, 2, lo=.1, hi=.9))])
    of('binary_focal', 'binary_focal_crossentropy', dict(apply_class_balancing=True, alpha=.3, gamma=1.5, label_smoothing=.1, from_logits=True), [(BITS, F(4, 3, k=2)), (1 - BITS, F(4, 3), w4)])
    of('binary_focal_axis', 'binary_focal_crossentropy', dict(axis=1), [(pair(BITS), U(4, 3, 2, lo=.1, hi=.9))])
    of('categorical_focal', 'categorical_focal_crossentropy', dict(alpha=.4, gamma=1.5, label_smoothing=.1, from_logits=True), [(g.ONEHOT, F(5, 4)), (g.ONEHOT, F(5, 4), A([1, 0, 2, .5, 3]))])
    of('categorical_focal_axis', 'categorical_focal_crossentropy', dict(axis=1), [(onehot3, scores()), (onehot3, scores())])
    of('dice', 'dice', {}, [(BITS, U(4, 3)), (1 - BITS, U(4, 3))])
    of('dice_axis', 'dice', dict(axis=[1, 2]), [(pair(BITS), U(4, 3, 2)), (pair(1 - BITS), U(4, 3, 2), w4)])
    of('tversky', 'tversky', dict(alpha=.3, beta=.8), [(BITS, U(4, 3)), (1 - BITS, U(4, 3))])
    of('tversky_axis', 'tversky', dict(alpha=.7, beta=.2, axis=[1, 2]), [(pair(BITS), U(4, 3, 2)), (pair(1 - BITS), U(4, 3, 2), w4)])
    unit = lambda r: (lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True)))(F(6, 4)(r)); ids = A([0, 1, 0, 2, 1, 0], 'int32')
    of('circle', 'circle', dict(gamma=20., margin=.3, remove_diagonal=False), [(ids, unit), (ids, unit, A([1, 0, 2, .5, 1, 3]))])
    of('gce', 'categorical_generalized_cross_entropy', dict(q=.8), [(CLASSES, U(5, 4, lo=.05)), (CLASSES, U(5, 4, lo=.05), A([1, 0, 2, .5, 3]))])
    # The result of Keras 3.15 has no other axes than 0 and -1 of its one; Keras 2.15 takes all.
    axis = 0 if V3 else 1; one = lambda: I(2, 4, hi=3); hot = lambda r: np.moveaxis(np.eye(3, dtype='float32')[r.randint(0, 3, (2, 4))], -1, axis); s = U(*((3, 2, 4) if V3 else (2, 3, 4))); w = A([[1, 0, 2, 1], [3, 1, 1, 2]])
    metric('iou_axis', 'IoU', dict(num_classes=3, target_class_ids=[0, 2], sparse_y_true=False, sparse_y_pred=False, axis=axis), [(hot, s), (hot, s, w)])
    metric('iou_one_hot_labels', 'IoU', dict(num_classes=3, target_class_ids=[1], sparse_y_true=False, axis=axis, ignore_class=2), [(hot, one()), (hot, one(), w)])
    metric('meaniou_axis', 'MeanIoU', dict(num_classes=3, sparse_y_pred=False, axis=axis), [(one(), s), (one(), s, w)])
    metric('onehotiou_axis', 'OneHotIoU', dict(num_classes=3, target_class_ids=[0, 2], axis=axis, ignore_class=1), [(hot, s), (hot, s, w)])
    metric('onehotmeaniou_axis', 'OneHotMeanIoU', dict(num_classes=3, axis=axis), [(hot, s), (hot, s, w)])
    if not V3: return
    cls = 'SparseCategoricalCrossentropy'; base = getattr(MET, cls)
    for name, cfg in (('', {}), ('_logits', dict(from_logits=True)), ('_ignore', dict(ignore_class=2))):
        g.MET = Overlay(MET, cls, type(cls, (Twin,), {'base': base, **classes_last(1, 'update_state')}))
        metric('scce_axis' + name, cls, dict(axis=1, **cfg), [(I(2, 4, hi=3), U(2, 3, 4, lo=.05)), (I(2, 4, hi=3), U(2, 3, 4, lo=.05), w)], note='computed by axis -1 on transposed predictions')
        g.MET = MET


def optimizers():
    more = dict(learning_rate=.05)
    g.optimizer('options_muon_adam', 'Muon', dict(adam_beta_1=.7, adam_beta_2=.9, epsilon=1e-2, adam_lr_ratio=.5, adam_weight_decay=.1, **more), tol=1e-4)
    g.optimizer('options_muon_iteration', 'Muon', dict(muon_a=3., muon_b=-4., muon_c=1.75, rms_rate=.3, ns_steps=3, **more), tol=1e-4)


if __name__ == '__main__':
    g.SECTIONS = [convolutions, images, normalization, recurrent, attention, losses, metrics, optimizers]
    g.write_coverage = lambda: None                # coverage.txt is about the cases of golden_models.py
    g.main()
