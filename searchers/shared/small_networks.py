"""Small networks in NumPy: perceptrons, an LSTM, their gradients written out, and Adam.

For searchers whose networks are tiny: there a framework's overhead per call would outweigh the
arithmetic. All parameters of a network lie in one vector `[P]`, so that an optimiser and a saved
state are a few arrays.

Letters: B rows, F inputs, H hidden units, O outputs, P parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes
from searchers.scales import scale_sample, signed_log

if TYPE_CHECKING:
    from costmodel.space import Space

Floats = npt.NDArray[np.float64]
Choices = npt.NDArray[np.int64]
Learner = dict[str, Floats]

# What a recurrent network read and computed at each place.
Trace = list[tuple[Floats, ...]]

# Mappings that whiten the features.
SCALE_SAMPLE = 256

# Bound of a whitened feature, in standard deviations.
LARGEST_FEATURE = 10.0

# Adam (Kingma & Ba, ICLR 2015), with its authors' constants.
FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8


class Features:
    """Whitened features of mappings: `sign(x) ln(1 + |x|)` of what varies in `Space.encode`.

    Attributes:
        width: F, the features that vary over a fixed sample of the space.
    """

    def __init__(self, space: Space) -> None:
        """Finds what varies, its mean and its standard deviation."""
        self._space = space
        encoded = space.encode(scale_sample(space, SCALE_SAMPLE))
        sample = signed_log(encoded.astype(np.float64))
        self._columns = np.flatnonzero(np.ptp(sample, axis=0) > 0)
        self._mean = sample[:, self._columns].mean(axis=0)
        self._scale = sample[:, self._columns].std(axis=0)
        self.width = self._columns.size

    def __call__(self, codes: Codes) -> Floats:
        """`[B, F]` of codes `[B, D]`."""
        values = signed_log(self._space.encode(codes)[:, self._columns].astype(np.float64))
        whitened: Floats = (values - self._mean) / self._scale
        return np.clip(whitened, -LARGEST_FEATURE, LARGEST_FEATURE)


class Perceptron:
    """Layers with tanh between them; the last one is linear.

    Attributes:
        size: P.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        """Lays out the parameters; `widths` are F, the hidden layers and O."""
        self._shapes = [
            shape
            for inputs, outputs in itertools.pairwise(widths)
            for shape in ((inputs, outputs), (outputs,))
        ]
        self.size = sum(map(math.prod, self._shapes))

    def initial(self, rng: np.random.Generator) -> Floats:
        """`[P]` random weights (Glorot & Bengio, 2010); biases and the last layer are 0."""
        parts = [_glorot(rng, shape) for shape in self._shapes[:-2]]
        return np.concatenate([*parts, np.zeros(sum(map(math.prod, self._shapes[-2:])))])

    def forward(self, parameters: Floats, inputs: Floats) -> tuple[Floats, list[Floats]]:
        """Outputs `[B, O]` of inputs `[B, F]`, and what every layer read, for `gradient`."""
        layers = unpack(parameters, self._shapes)
        read = [inputs]
        for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
            read.append(np.tanh(read[-1] @ weight + bias))
        outputs: Floats = read[-1] @ layers[-2] + layers[-1]
        return outputs, read

    def gradient(self, parameters: Floats, read: list[Floats], slope: Floats) -> Floats:
        """Slope `[P]` of a scalar whose slopes at the outputs are `[B, O]`."""
        weights = unpack(parameters, self._shapes)[::2]
        parts: list[Floats] = []
        for layer in range(len(weights) - 1, -1, -1):
            parts += [slope.sum(axis=0), (read[layer].T @ slope).ravel()]
            if layer:
                slope = (slope @ weights[layer].T) * (1.0 - read[layer] ** 2)
        return np.concatenate(parts[::-1])


class Recurrent:
    """A long short-term memory that emits a sequence of choices, each fed back as the next input.

    The sequence has S places with their own numbers of choices; each place has its own embedding
    and its own output layer, and the cell is shared. Place 0 reads zeros.

    Attributes:
        size: P.
    """

    def __init__(self, choices: Sequence[int], *, hidden: int, embedding: int) -> None:
        """Lays out the parameters for `choices[s]` choices at place s."""
        self.choices = tuple(choices)
        self.hidden = hidden
        ends = np.cumsum(self.choices)
        self._place = [slice(end - n, end) for n, end in zip(self.choices, ends, strict=True)]
        # Embedding, input and state to the gates (input, forget, output, cell), gate bias, output
        # weight and bias of every place side by side.
        total = sum(self.choices)
        self._shapes: list[tuple[int, ...]] = [
            (total, embedding),
            (embedding, 4 * hidden),
            (hidden, 4 * hidden),
            (4 * hidden,),
            (hidden, total),
            (total,),
        ]
        self.size = sum(map(math.prod, self._shapes))

    def initial(self, rng: np.random.Generator) -> Floats:
        """`[P]` random weights; every choice is equally likely, and the cell remembers."""
        parts = [_glorot(rng, shape) for shape in self._shapes[:4]]
        parts[3][self.hidden : 2 * self.hidden] = 1.0
        return np.concatenate([*parts, np.zeros(sum(map(math.prod, self._shapes[4:])))])

    def emit(
        self, parameters: Floats, rows: int, choose: Callable[[int, Floats], Choices]
    ) -> tuple[Choices, Trace]:
        """Emits sequences.

        Args:
            parameters: `[P]`.
            rows: B.
            choose: the choices `[B]` of a place, given its number and the logits `[B, choices]`.

        Returns:
            The choices `[B, S]`, and what `gradient` needs.
        """
        embedding, inward, recurrent, bias, outward, shift = unpack(parameters, self._shapes)
        state, cell = np.zeros((rows, self.hidden)), np.zeros((rows, self.hidden))
        read = np.zeros((rows, embedding.shape[1]))
        chosen = np.zeros((rows, len(self.choices)), np.int64)
        trace: Trace = []
        for s, place in enumerate(self._place):
            gates = read @ inward + state @ recurrent + bias
            # Sigmoids of the first three, as hyperbolic tangents, which NumPy has.
            opened = 0.5 + 0.5 * np.tanh(0.5 * gates[:, : 3 * self.hidden])
            entered, kept, shown = np.split(opened, 3, axis=1)
            fresh = np.tanh(gates[:, 3 * self.hidden :])
            following = kept * cell + entered * fresh
            squashed = np.tanh(following)
            trace.append((read, state, cell, entered, kept, fresh, shown, squashed))
            state, cell = shown * squashed, following
            chosen[:, s] = choose(s, state @ outward[:, place] + shift[place])
            read = embedding[place][chosen[:, s]]
        return chosen, trace

    def gradient(
        self, parameters: Floats, chosen: Choices, trace: Trace, slopes: list[Floats]
    ) -> Floats:
        """Slope `[P]` of a scalar whose slopes at the logits of place s are `slopes[s]`."""
        _, inward, recurrent, _, outward, _ = unpack(parameters, self._shapes)
        result = np.zeros(self.size)
        to_embedding, to_inward, to_recurrent, to_bias, to_outward, to_shift = unpack(
            result, self._shapes
        )
        rows = len(chosen)
        at_state, at_cell = np.zeros((rows, self.hidden)), np.zeros((rows, self.hidden))
        for s in range(len(self.choices) - 1, -1, -1):
            place = self._place[s]
            read, state, cell, entered, kept, fresh, shown, squashed = trace[s]
            to_outward[:, place] = (shown * squashed).T @ slopes[s]
            to_shift[place] = slopes[s].sum(axis=0)
            at_state = at_state + slopes[s] @ outward[:, place].T
            at_cell = at_cell + at_state * shown * (1.0 - squashed**2)
            at_gates = np.concatenate(
                [
                    at_cell * fresh * entered * (1.0 - entered),
                    at_cell * cell * kept * (1.0 - kept),
                    at_state * squashed * shown * (1.0 - shown),
                    at_cell * entered * (1.0 - fresh**2),
                ],
                axis=1,
            )
            to_inward += read.T @ at_gates
            to_recurrent += state.T @ at_gates
            to_bias += at_gates.sum(axis=0)
            if s:
                np.add.at(to_embedding[self._place[s - 1]], chosen[:, s - 1], at_gates @ inward.T)
            at_state, at_cell = at_gates @ recurrent.T, at_cell * kept
        return result


def _glorot(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Weights drawn for a shape, flat; biases are 0."""
    if len(shape) == 1:
        return np.zeros(shape)
    limit = math.sqrt(6.0 / sum(shape))
    return rng.uniform(-limit, limit, math.prod(shape))


def unpack(parameters: Floats, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
    """The vector `[P]` as views of these shapes, one after another."""
    views, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        views.append(parameters[start:end].reshape(shape))
        start = end
    return views


def learner(parameters: Floats) -> Learner:
    """Parameters `[P]` with the moments of Adam and its count of steps."""
    zeros = np.zeros_like(parameters)
    return {"parameters": parameters, "first": zeros, "second": zeros.copy(), "steps": np.zeros(1)}


def descend(state: Learner, slope: Floats, learning_rate: float, largest: float) -> None:
    """One step of Adam against a slope `[P]`, whose norm is first cut down to `largest`."""
    norm = float(np.sqrt(slope @ slope))
    if norm > largest:
        slope = slope * (largest / norm)
    state["steps"] += 1
    steps = float(state["steps"][0])
    first, second = state["first"], state["second"]
    first += (1.0 - FIRST_DECAY) * (slope - first)
    second += (1.0 - SECOND_DECAY) * (slope**2 - second)
    rate = learning_rate * math.sqrt(1.0 - SECOND_DECAY**steps) / (1.0 - FIRST_DECAY**steps)
    state["parameters"] -= rate * first / (np.sqrt(second) + TINY)


def log_softmax(logits: Floats) -> Floats:
    """Logarithms `[B, O]` of the probabilities that logits stand for."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def draw(rng: np.random.Generator, logs: Floats) -> npt.NDArray[np.int64]:
    """`[B]` one choice per row of log probabilities `[B, O]`; -inf is never chosen."""
    # The Gumbel trick needs no normalisation and one pass.
    chosen: npt.NDArray[np.int64] = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
    return chosen


def policy_slope(
    logits: Floats, chosen: npt.NDArray[np.int64], gains: Floats, entropy: float
) -> Floats:
    """Slopes `[B, O]` at the logits of `sum(-gains ln p(chosen) - entropy H(p))` over the rows.

    Args:
        logits: `[B, O]`; -inf for what cannot be chosen.
        chosen: `[B]` choices made.
        gains: `[B]` how much more of them is wanted, such as advantages.
        entropy: weight of the entropy H in nats.
    """
    logs = log_softmax(logits)
    shares = np.exp(logs)
    finite = np.where(shares > 0, logs, 0.0)
    disorder = -(shares * finite).sum(axis=1, keepdims=True)
    slope: Floats = gains[:, None] * shares + entropy * shares * (finite + disorder)
    slope[np.arange(len(chosen)), chosen] -= gains
    return slope
