"""Training rows streamed from shards: held-out problems, shuffling, batches.

Nothing here holds more than a pool of rows and two shards, however large the data set. Letters:
`B` rows of a batch, `R` rows, `n` dimensions, `F` raw values per point, `O` costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mapspace.errors import ConfigError
from surrogate.samples import Float32Array, Samples
from surrogate.shards import Dataset


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
    def sizes(self) -> Float32Array:
        """Problem sizes of each row, [R, n]."""
        dimensions = len(next(iter(self.problems)))
        return self.samples.inputs[:, :dimensions]

    @property
    def log_edp(self) -> npt.NDArray[np.float64]:
        """Logarithm of EDP over the algorithmic minimum, [R]."""
        logs = np.log(self.samples.costs[:, -2:].astype(np.float64))
        return logs[:, 0] + logs[:, 1]

    def thinned(self, rows: int) -> HeldOut:
        """At most so many rows, evenly spread."""
        stride = -(-len(self.samples.inputs) // rows)
        return HeldOut(
            self.problems, Samples(self.samples.inputs[::stride], self.samples.costs[::stride])
        )


class Batch(NamedTuple):
    """Rows of a training step, on the device that trains."""

    inputs: torch.Tensor
    """[B, F] float32 encoded points."""
    costs: torch.Tensor
    """[B, O] float32 normalised costs."""


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
    out, while the next shard is read. With a pool as large as the data set that is a full shuffle,
    and the rows are kept: on the device, so that nothing but their order goes there every epoch.
    Where the sequence stands is (epoch, batch within it), so it can be continued from there.

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
        device: torch.device | str = "cpu",
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
            device: Where batches are wanted.

        Raises:
            ConfigError: If there are fewer shards than workers.
        """
        if shards < workers:
            raise ConfigError(f"{shards} shards cannot feed {workers} workers.")
        self._dataset, self._held_out, self._shards = dataset, held_out, shards
        self._batch_size, self._pool_rows, self._seed = batch_size, pool_rows, seed
        self._rank, self._workers, self._device = rank, workers, device
        total = sum(shard.rows for shard in dataset.manifest.shards[:shards])
        self._fits = total <= pool_rows
        self._kept: tuple[torch.Tensor, npt.NDArray[np.int64]] | None = None
        self.epoch = self.batch = 0
        self._current = self._epoch(0)

    def next(self) -> Batch:
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

    def _epoch(self, epoch: int) -> Iterator[Batch]:
        """Full batches of one epoch; up to one batch of rows is left over."""
        common = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(0, epoch)))
        own = np.random.default_rng(
            np.random.SeedSequence(self._seed, spawn_key=(1, epoch, self._rank))
        )
        order = common.permutation(self._shards)[self._rank :: self._workers]
        size = self._batch_size
        rest: torch.Tensor | None = None
        width = len(self._dataset.manifest.structure.features)
        for chunk in (self._shuffled if self._fits else self._streamed)(order, own):
            rows = chunk if rest is None else torch.cat((rest, chunk))
            full = len(rows) // size * size
            for at in range(0, full, size):
                batch = rows[at : at + size]
                yield Batch(batch[:, :width].contiguous(), batch[:, width:].contiguous())
            rest = rows[full:]

    def _shuffled(
        self, order: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        """Rows [.., F + O] of the shards in `order`, from a copy that is made once."""
        if self._kept is None:
            everything, starts = self._filled(self._read(np.arange(self._shards)))
            self._kept = torch.from_numpy(everything).to(self._device), starts
        rows, starts = self._kept
        indices = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in order])
        indices = indices[rng.permutation(len(indices))]
        for at in range(0, len(indices), 64 * self._batch_size):
            chosen = torch.from_numpy(indices[at : at + 64 * self._batch_size])
            yield rows.index_select(0, chosen.to(self._device))

    def _streamed(
        self, order: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        """Rows [.., F + O] of the shards in `order`, shuffled in a pool."""
        reading = self._read(order)
        pool, _ = self._filled(reading)
        for rows in reading:
            rng.shuffle(rows)
            slots = rng.permutation(len(pool))[: len(rows)]
            given = pool[slots]
            pool[slots] = rows[: len(slots)]
            yield self._on_device(np.concatenate((given, rows[len(slots) :])))
        permuted = rng.permutation(len(pool))
        # Gathered piece by piece: a shuffled copy of the pool would double its memory.
        for at in range(0, len(pool), 64 * self._batch_size):
            yield self._on_device(pool[permuted[at : at + 64 * self._batch_size]])

    def _filled(
        self, reading: Iterator[Float32Array]
    ) -> tuple[Float32Array, npt.NDArray[np.int64]]:
        """The next shards' rows, until the pool is full, and where each shard starts and ends."""
        manifest = self._dataset.manifest
        sizes = [shard.rows for shard in manifest.shards[: self._shards]]
        # Room for all at once: to put parts together would take it twice. What is not used of it
        # costs nothing.
        room = min(sum(sizes), self._pool_rows + max(sizes))
        columns = len(manifest.structure.features) + len(manifest.costs)
        pool = np.empty((room, columns), np.float32)
        ends = [0]
        for rows in reading:
            ends.append(ends[-1] + len(rows))
            pool[ends[-2] : ends[-1]] = rows
            if ends[-1] >= self._pool_rows:
                break
        return pool[: ends[-1]], np.array(ends)

    def _read(self, positions: npt.NDArray[np.int64]) -> Iterator[Float32Array]:
        """Training rows [.., F + O] of shards; while one is worked on, the next is read."""
        if not len(positions):
            return
        with ThreadPoolExecutor(max_workers=1) as reader:
            ahead = reader.submit(self._rows, int(positions[0]))
            for position in positions[1:]:
                rows = ahead.result()
                ahead = reader.submit(self._rows, int(position))
                yield rows
            yield ahead.result()

    def _on_device(self, rows: Float32Array) -> torch.Tensor:
        return torch.from_numpy(rows).to(self._device)

    def _rows(self, position: int) -> Float32Array:
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


def _starts(sizes: Float32Array) -> npt.NDArray[np.int64]:
    """First row of each run of equal problem sizes [R, n]."""
    changed = (sizes[1:] != sizes[:-1]).any(axis=1)
    return np.concatenate(([0], np.flatnonzero(changed) + 1))


def _problem(sizes: Float32Array, row: int) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes[row])


def _membership(sizes: Float32Array, problems: frozenset[tuple[int, ...]]) -> npt.NDArray[np.bool_]:
    """Whether each row's problem [R, n] is among `problems`, [R]."""
    starts = _starts(sizes)
    member = np.array([_problem(sizes, int(start)) in problems for start in starts])
    return np.repeat(member, np.diff(np.append(starts, len(sizes))))


def _select(samples: Samples, mask: npt.NDArray[np.bool_]) -> Samples:
    return Samples(samples.inputs[mask], samples.costs[mask])
