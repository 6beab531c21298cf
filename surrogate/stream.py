"""Training rows streamed from shards: held-out problems, shuffling, batches.

Nothing here holds more than a buffer of rows, however large the data set. Letters: `R` rows, `n`
dimensions, `F` raw values per point, `O` costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.errors import ConfigError
from surrogate.samples import Samples
from surrogate.shards import Dataset

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class HeldOut:
    """Problems that are never trained on, wherever in the data set their sizes occur.

    Attributes:
        problems: Their sizes.
        samples: Their rows in the last shards.
    """

    problems: frozenset[tuple[int, ...]]
    samples: Samples

    @property
    def sizes(self) -> FloatArray:
        """Problem sizes of each row, [R, n]."""
        dimensions = len(next(iter(self.problems)))
        return self.samples.inputs[:, :dimensions]

    @property
    def log_edp(self) -> npt.NDArray[np.float64]:
        """Logarithm of EDP over the algorithmic minimum, [R]."""
        logs = np.log(self.samples.costs[:, -2:].astype(np.float64))
        return logs[:, 0] + logs[:, 1]


def hold_out(dataset: Dataset, count: int) -> HeldOut:
    """Sets the last `count` different problems of a data set apart.

    Raises:
        ConfigError: If the data set has no other problem to train on.
    """
    problems: dict[tuple[int, ...], None] = {}
    position = len(dataset)
    while position > 0 and len(problems) < count:
        position -= 1
        sizes = dataset.problems(position)
        for start in reversed(_starts(sizes)):
            if len(problems) < count:
                problems[_problem(sizes, start)] = None
    chosen = frozenset(problems)
    if position == 0 and _membership(dataset.problems(0), chosen).all():
        raise ConfigError(
            f"held_out_problems: expected fewer than the {len(chosen)} different problems of "
            f"{dataset.folder}, got {count}."
        )
    parts = []
    for part in range(position, len(dataset)):
        samples = dataset.read(part)
        parts.append(_select(samples, _membership(samples.inputs[:, : len(sizes[0])], chosen)))
    return HeldOut(
        chosen,
        Samples(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.costs for part in parts]),
        ),
    )


class Batches:
    """An endless, reproducible sequence of training batches of one worker.

    An epoch visits the worker's shards in random order. Rows go through a pool of `pool_rows`: of
    each further shard as many rows take the places of random rows of the pool, which are given
    out. With a pool as large as the data set that is a full shuffle. Where the sequence stands is
    (epoch, batch within it), so it can be continued from there.

    Attributes:
        epoch: The current epoch, from 0.
        batch: Batches of the current epoch that were given out.
    """

    def __init__(
        self,
        dataset: Dataset,
        held_out: HeldOut,
        *,
        shards: int,
        batch_size: int,
        pool_rows: int,
        seed: int,
        rank: int = 0,
        workers: int = 1,
    ) -> None:
        """Prepares the sequence.

        Args:
            dataset: Where rows come from.
            held_out: Problems to leave out.
            shards: Only the first so many shards are used.
            batch_size: Rows of a batch.
            pool_rows: Rows that are shuffled together.
            seed: Decides every order.
            rank: This worker, out of `workers`, which share the shards of each epoch.
            workers: How many there are.

        Raises:
            ConfigError: If there are fewer shards than workers.
        """
        if shards < workers:
            raise ConfigError(f"{shards} shards cannot feed {workers} workers.")
        self._dataset, self._held_out, self._shards = dataset, held_out, shards
        self._batch_size, self._pool_rows, self._seed = batch_size, pool_rows, seed
        self._rank, self._workers = rank, workers
        self.epoch = self.batch = 0
        self._current = self._epoch(0)

    def next(self) -> Samples:
        """The next batch, exactly `batch_size` rows.

        Raises:
            ConfigError: If a whole epoch has fewer rows than a batch.
        """
        batch = next(self._current, None)
        if batch is None:
            if self.batch == 0:
                raise ConfigError(
                    f"{self._dataset.folder} has fewer rows for training than one batch of "
                    f"{self._batch_size}."
                )
            self.epoch, self.batch = self.epoch + 1, 0
            self._current = self._epoch(self.epoch)
            return self.next()
        self.batch += 1
        return batch

    def seek(self, epoch: int, batch: int) -> None:
        """Continues after `batch` batches of `epoch`."""
        self.epoch, self.batch = epoch, 0
        self._current = self._epoch(epoch)
        for _ in range(batch):
            self.next()

    def _epoch(self, epoch: int) -> Iterator[Samples]:
        """Full batches of one epoch; up to one batch of rows is left over."""
        common = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(0, epoch)))
        own = np.random.default_rng(
            np.random.SeedSequence(self._seed, spawn_key=(1, epoch, self._rank))
        )
        order = common.permutation(self._shards)[self._rank :: self._workers]
        size = self._batch_size
        rest: FloatArray | None = None
        width = len(self._dataset.manifest.structure.features)
        for chunk in self._chunks(order, own):
            rows = chunk if rest is None else np.concatenate((rest, chunk))
            full = len(rows) // size * size
            for at in range(0, full, size):
                yield Samples(rows[at : at + size, :width], rows[at : at + size, width:])
            rest = rows[full:]

    def _chunks(
        self, order: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Shuffled rows [.., F + O] of the shards in `order`."""
        filling: list[FloatArray] = []
        pool: FloatArray | None = None
        for position in order:
            rows = self._rows(int(position))
            if pool is None:
                filling.append(rows)
                if sum(map(len, filling)) >= self._pool_rows:
                    pool = np.concatenate(filling)
                continue
            rng.shuffle(rows)
            slots = rng.permutation(len(pool))[: len(rows)]
            given = pool[slots]
            pool[slots] = rows[: len(slots)]
            yield np.concatenate((given, rows[len(slots) :]))
        if pool is None:
            pool = np.concatenate(filling)
        permuted = rng.permutation(len(pool))
        # Gathered piece by piece: a shuffled copy of the pool would double its memory.
        for at in range(0, len(pool), 64 * self._batch_size):
            yield pool[permuted[at : at + 64 * self._batch_size]]

    def _rows(self, position: int) -> FloatArray:
        samples = self._dataset.read(position)
        dimensions = len(self._dataset.manifest.structure.dimensions)
        train = ~_membership(samples.inputs[:, :dimensions], self._held_out.problems)
        return np.concatenate((samples.inputs[train], samples.costs[train]), axis=1)


def shards_for(dataset: Dataset, rows: int | None) -> int:
    """How many of the first shards hold `rows` rows (None: all shards).

    Raises:
        ConfigError: If the data set has fewer rows.
    """
    if rows is None:
        return len(dataset)
    total = 0
    for count, shard in enumerate(dataset.manifest.shards, start=1):
        total += shard.rows
        if total >= rows:
            return count
    raise ConfigError(f"rows: expected at most the {total} rows of {dataset.folder}, got {rows}.")


def _starts(sizes: FloatArray) -> npt.NDArray[np.int64]:
    """First row of each run of equal problem sizes [R, n]."""
    changed = (sizes[1:] != sizes[:-1]).any(axis=1)
    return np.concatenate(([0], np.flatnonzero(changed) + 1))


def _problem(sizes: FloatArray, row: int) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes[row])


def _membership(sizes: FloatArray, problems: frozenset[tuple[int, ...]]) -> npt.NDArray[np.bool_]:
    """Whether each row's problem [R, n] is among `problems`, [R]."""
    starts = _starts(sizes)
    member = np.array([_problem(sizes, int(start)) in problems for start in starts])
    return np.repeat(member, np.diff(np.append(starts, len(sizes))))


def _select(samples: Samples, mask: npt.NDArray[np.bool_]) -> Samples:
    return Samples(samples.inputs[mask], samples.costs[mask])
