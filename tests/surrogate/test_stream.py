"""The stream of training rows: each once an epoch, shared by workers, continued where it stood."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from mapspace.errors import ConfigError
from surrogate.shards import Dataset
from surrogate.stream import Batches, hold_out, shards_for


def collect(batches: Batches, epochs: int) -> np.ndarray:
    rows = []
    while True:
        batch = batches.next()
        if batches.epoch == epochs:
            return np.concatenate(rows)
        rows.append(np.concatenate((batch.inputs, batch.costs), axis=1))


def stream(data: Path, **changes: int) -> Batches:
    dataset = Dataset(data)
    options = {"shards": 4, "batch_size": 32, "pool_rows": 10_000, "seed": 0, **changes}
    return Batches(dataset, hold_out(dataset, 7), **options)


@pytest.mark.parametrize("pool_rows", [10_000, 1500, 10])
def test_an_epoch_gives_every_training_row_once_and_no_held_out_one(
    small_data: Path, pool_rows: int
) -> None:
    dataset = Dataset(small_data)
    held_out = hold_out(dataset, 7)
    assert len(held_out.problems) == 7
    assert len(held_out.log_edp) == 700
    parts = [dataset.read(position) for position in range(4)]
    everything = np.concatenate([np.concatenate((p.inputs, p.costs), axis=1) for p in parts])
    train = [row.tobytes() for row in everything if _sizes(row) not in held_out.problems]
    rows = collect(stream(small_data, pool_rows=pool_rows), 1)
    given = [row.tobytes() for row in rows]
    assert len(given) == len(train) // 32 * 32
    # Repeated mappings of small problems occur, hence multisets.
    leftover = sorted(train)
    for row in given:
        leftover.remove(row)
    assert len(leftover) == len(train) % 32
    assert not held_out.problems & {_sizes(row) for row in rows}
    # Shuffled: neighbours are mostly of different problems.
    if pool_rows > 1000:
        changes = np.mean([_sizes(a) != _sizes(b) for a, b in itertools.pairwise(rows)])
        assert changes > 0.5


def _sizes(row: np.ndarray) -> tuple[int, ...]:
    return tuple(int(size) for size in row[:7])


def test_workers_share_an_epoch_and_another_seed_shuffles_differently(small_data: Path) -> None:
    whole = collect(stream(small_data), 1)
    again = collect(stream(small_data), 1)
    np.testing.assert_array_equal(whole, again)
    assert not np.array_equal(whole, collect(stream(small_data, seed=1), 1))
    halves = [collect(stream(small_data, rank=rank, workers=2), 1) for rank in (0, 1)]
    problems = [{_sizes(row) for row in half} for half in halves]
    assert not problems[0] & problems[1]
    assert problems[0] | problems[1] == {_sizes(row) for row in whole}
    with pytest.raises(ConfigError, match="4 shards cannot feed 5 workers"):
        stream(small_data, workers=5)


def test_a_stream_continues_where_it_stood(small_data: Path) -> None:
    first = stream(small_data, pool_rows=1500)
    for _ in range(150):
        first.next()
    assert first.epoch == 1
    second = stream(small_data, pool_rows=1500)
    second.seek(first.epoch, first.batch)
    for _ in range(100):
        a, b = first.next(), second.next()
        np.testing.assert_array_equal(a.inputs, b.inputs)
        np.testing.assert_array_equal(a.costs, b.costs)
    assert (first.epoch, first.batch) == (second.epoch, second.batch)


def test_too_little_data_is_refused(small_data: Path) -> None:
    dataset = Dataset(small_data)
    for count in (40, 41, 1000):
        with pytest.raises(ConfigError, match="held_out_problems"):
            hold_out(dataset, count)
    with pytest.raises(ConfigError, match="at most the 4000 rows"):
        shards_for(dataset, 4001)
    assert shards_for(dataset, 1001) == 2
    with pytest.raises(ConfigError, match="fewer rows for training than one batch"):
        stream(small_data, batch_size=4000).next()
