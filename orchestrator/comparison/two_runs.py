"""`mapspace compare`: what of two runs of one benchmark differs, and whether by chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mapspace.errors import ConfigError
from mapspace.storage import Place
from orchestrator.comparison.conclusion import listed
from orchestrator.comparison.page import is_result
from orchestrator.comparison.rank_tests import LEVEL, holm, paired_p
from orchestrator.comparison.results import FloatArray, Results
from orchestrator.comparison.results_files import SUMMARY_FILE, load
from orchestrator.runs.locations import local_view

Verdict = Literal["better", "worse", "no difference", "too few pairs"]
_FARTHEST = math.log(np.finfo(float).max)
FEWEST_PAIRS = 6
"""Of fewer pairs that all differ one way the test cannot say less than p = 0.06."""
# What decides whether two losses are of one question.
_QUESTION = ("model", "model_version", "accelerator")
_ASKED = ("objective", "iterations", "seconds", "visited", "query_latency")


@dataclass(frozen=True)
class Difference:
    """What differs between two runs of one method, on one workload or on all.

    Attributes:
        method: its label.
        workload: its name; None: over all of them.
        pairs: how many searches both have, by workload and seed.
        ratio: loss of the second run over that of the first, geometric mean of the pairs; inf or 0
            where one of them found nothing.
        time: the same of search time.
        p: that it is chance, adjusted for being one of several.
        verdict: in a word.
    """

    method: str
    workload: str | None
    pairs: int
    ratio: float
    time: float
    p: float
    verdict: Verdict


@dataclass(frozen=True)
class Compared:
    """Two runs, held against each other.

    Attributes:
        methods: over all workloads, in the order of the first run.
        cells: of every method and workload.
        alone: methods that one of the runs does not have.
        notes: what else differs, a line each.
    """

    methods: tuple[Difference, ...]
    cells: tuple[Difference, ...]
    alone: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def worse(self) -> list[Difference]:
        """The methods and cells that are."""
        return [one for one in (*self.methods, *self.cells) if one.verdict == "worse"]

    @property
    def conclusion(self) -> str:
        """What it comes to, in a sentence."""
        every = (*self.methods, *self.cells)
        said = []
        for verdict in ("worse", "better"):
            whole = [one.method for one in self.methods if one.verdict == verdict]
            parts = [
                f"{one.method} on {one.workload}"
                for one in self.cells
                if one.verdict == verdict and one.method not in whole
            ]
            if whole or parts:
                said.append(f"{verdict.capitalize()}: {listed([*whole, *parts])}.")
        if said:
            return " ".join(said)
        if all(one.ratio == 1 for one in every):
            return "No difference: every search ends where it ended."
        if all(one.verdict == "too few pairs" for one in self.methods):
            return f"Fewer than {FEWEST_PAIRS} pairs of searches: nothing is told from chance."
        return "No difference that is not chance."

    def to_dict(self) -> dict[str, Any]:
        """As JSON types; a ratio where one run found nothing is null."""
        rows = [[asdict(one) for one in part] for part in (self.methods, self.cells)]
        for one in (*rows[0], *rows[1]):
            for name in ("ratio", "time"):
                one[name] = one[name] if 0 < one[name] < math.inf else None
        return {
            "methods": rows[0],
            "cells": rows[1],
            "alone": list(self.alone),
            "notes": list(self.notes),
            "conclusion": self.conclusion,
        }


def one_result(folder: Place) -> Results:
    """The benchmark of a run folder, or of a copy that is kept.

    Raises:
        ConfigError: there is none.
    """
    with local_view(folder, is_result) as copy:
        if not (copy / SUMMARY_FILE).is_file():
            raise ConfigError(f"{folder}: expected one benchmark's run folder.")
        return load(copy)


def compare(before: Results, after: Results) -> Compared:
    """Holds a run against an earlier one, search by search with the same seed.

    Raises:
        ConfigError: they are no two runs of one question; the message says what differs.
    """
    if wrong := list(_apart(before, after)):
        raise ConfigError(" ".join(wrong))
    shared = [label for label in before.searchers if label in after.searchers]
    if not shared:
        raise ConfigError(
            f"expected a method that both have, got {', '.join(before.searchers)} and "
            f"{', '.join(after.searchers)}."
        )
    alone = [label for label in (*before.searchers, *after.searchers) if label not in shared]
    names = before.workloads
    methods = [_pairs(before, after, label) for label in shared]
    cells = [_pairs(before, after, label, name) for label in shared for name in names]
    return Compared(
        _judged(methods), _judged(cells), tuple(dict.fromkeys(alone)), tuple(_notes(before, after))
    )


def _apart(before: Results, after: Results) -> Iterator[str]:
    """Why two runs answer other questions."""
    for name in _QUESTION:
        mine, theirs = before.provenance.get(name), after.provenance.get(name)
        if mine != theirs:
            yield f"{name.replace('_', ' ')}: expected the same, got {mine} and {theirs}."
    for name in _ASKED:
        own = before.experiment.get(name), after.experiment.get(name)
        if (own[0] or None) != (own[1] or None):
            yield f"{name}: expected the same, got {own[0]} and {own[1]}."
    mine, theirs = _workloads(before), _workloads(after)
    if mine != theirs:
        yield (
            "workloads: expected the same, got "
            f"{' and '.join(', '.join(sorted(own)) for own in (mine, theirs))}."
            if mine.keys() != theirs.keys()
            else "workloads: expected the same, got others of the same names."
        )
    if before.measured != after.measured:
        yield "expected both measured, or neither."


def _workloads(results: Results) -> dict[str, Any]:
    hashes = results.provenance.get("workloads", {})
    return {name: hashes.get(name) for name in results.workloads}


@dataclass(frozen=True)
class _Pairs:
    """The searches that two runs share, as logarithms `[P]` of losses and times."""

    method: str
    workload: str | None
    losses: tuple[FloatArray, FloatArray]
    times: tuple[FloatArray, FloatArray]


def _pairs(before: Results, after: Results, label: str, only: str | None = None) -> _Pairs:
    found: list[list[FloatArray]] = [[], [], [], []]
    for name in before.workloads if only is None else (only,):
        seeds = [list(own.column("seed", label, name)) for own in (before, after)]
        shared = [seed for seed in seeds[0] if seed in seeds[1]]
        for side, own in enumerate((before, after)):
            rows = [seeds[side].index(seed) for seed in shared]
            with np.errstate(divide="ignore"):
                found[side].append(np.log(own.column("best_loss", label, name)[rows]))
                found[2 + side].append(np.log(own.column("seconds", label, name)[rows]))
    one, other, time, later = (np.concatenate(parts).astype(float) for parts in found)
    return _Pairs(label, only, (one, other), (time, later))


def _judged(found: Sequence[_Pairs]) -> tuple[Difference, ...]:
    """Differences with p-values that know of each other."""
    # More is worse, so that the sign of the ratio is that of the test.
    told = [paired_p(*one.losses) for one in found]
    return tuple(_difference(one, float(p)) for one, p in zip(found, holm(told), strict=True))


def _difference(found: _Pairs, p: float) -> Difference:
    ratio, time = _ratio(*found.losses), _ratio(*found.times)
    pairs = len(found.losses[0])
    verdict: Verdict = "no difference"
    if pairs < FEWEST_PAIRS and ratio != 1:
        verdict = "too few pairs"
    elif p < LEVEL:
        # As the test has it: what found nothing is far, so that a mixture has a side, too.
        before, after = (np.minimum(one, _FARTHEST) for one in found.losses)
        verdict = "worse" if float((after - before).mean()) > 0 else "better"
    return Difference(found.method, found.workload, pairs, ratio, time, p, verdict)


def _ratio(before: FloatArray, after: FloatArray) -> float:
    """Geometric mean of `after` over `before`, `[P]` logarithms; 1 where all are equal."""
    if not len(before) or np.array_equal(before, after):
        return 1.0
    with np.errstate(invalid="ignore"):
        apart = np.where(before == after, 0.0, after - before)
        mean = float(apart.mean())
    if math.isnan(mean):  # something was lost here, and something found there
        return 1.0
    return math.exp(mean) if math.isfinite(mean) else (math.inf if mean > 0 else 0.0)


def _notes(before: Results, after: Results) -> Iterator[str]:
    """What differs and changes no loss, or may."""
    for name in ("hyperparameters", "surrogates", "weights"):
        mine, theirs = before.provenance.get(name), after.provenance.get(name)
        if mine != theirs:
            told = name
            if isinstance(mine, dict) and isinstance(theirs, dict):
                keys = [key for key in mine if key in theirs and mine[key] != theirs[key]]
                if not keys:
                    continue
                told = f"{name} of {', '.join(keys)}"
            yield f"{told}: not the same in both."
    for name in ("processor", "processors", "commit"):
        own = before.provenance.get(name), after.provenance.get(name)
        if own[0] != own[1]:
            yield f"{name}: {' and '.join(str(one)[:40] for one in own)}."
