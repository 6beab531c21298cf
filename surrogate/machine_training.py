"""Trains the surrogate for every machine; `mapspace train` hosts it.

What is learnt is what tiles that slide over each other share, of one axis at a time (`Rest`), from
counts of the exact model over random machines and layers (`surrogate.machines`). How wide intervals
are is decided by other cases, and what is reported by held-out ones.

Letters: B mappings, I inner levels, X fan-outs, T tensors, R rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError
from surrogate.count_network import CountNetwork, Readout
from surrogate.machine_surrogate import MachineCard, Reached, load_network, write
from surrogate.machines import (
    CALIBRATION,
    HELD_OUT,
    HELD_OUT_DEEPER,
    HELD_OUT_GIVEN,
    TRAINING,
    Case,
    case,
)
from surrogate.metrics import spearman

# Mappings of a case: uniform ones, and the best that short walks from them found.
UNIFORM, WALKED, WALK_STEPS = 24, 24, 6
JUDGED = 200
# Steps and rows of a step, and the highest learning rate.
BATCH, STEPS, RATE = 2048, 6000, 3e-3
# Axes that share words in one place, at most: width and height.
AXES = 2


class Rows(NamedTuple):
    """What networks learn from: columns [R, places, inputs] and the sum over places [R]."""

    columns: npt.NDArray[np.float32]
    targets: npt.NDArray[np.float32]


def mappings(space: MapSpace, rng: np.random.Generator, uniform: int, walked: int) -> Codes:
    """Uniform feasible mappings, and better ones: where a search asks is not where chance does."""
    model = LoopNestModel()
    drawn = space.sample(rng, uniform + walked, feasible=True)
    codes, costs = drawn[uniform:], model.evaluate(space, drawn[uniform:]).edp
    for _ in range(WALK_STEPS * bool(walked)):
        moved = space.mutate(rng, codes, steps=2)
        found = model.evaluate(space, moved).edp
        better = found < costs
        codes, costs = np.where(better[:, None], moved, codes), np.where(better, found, costs)
    return np.concatenate([drawn[:uniform], codes])


def rows_of(cases: Iterable[Case]) -> tuple[Rows, Rows, int]:
    """Rows in time and across children, of all cases in which tiles slide, and queries made."""
    network = CountNetwork()
    in_time: list[Rows] = []
    across: list[Rows] = []
    queries = 0
    for found in cases:
        sizes = found.workload.dimensions
        if max(sizes.get("R", 1), sizes.get("S", 1)) == 1:
            continue
        space = MapSpace(found.workload, found.accelerator)
        readout = Readout(space, network)
        if readout.axes:
            codes = mappings(space, np.random.default_rng([found.index, 1]), UNIFORM, WALKED)
            _add_rows(space, readout, codes, in_time, across)
            queries += len(codes) + (1 + WALK_STEPS) * WALKED
    return _joined(in_time), _joined(across), queries


def _add_rows(
    space: MapSpace, readout: Readout, codes: Codes, in_time: list[Rows], across: list[Rows]
) -> None:
    detail = LoopNestModel().evaluate(space, codes, detail=True).detail
    assert detail is not None
    with torch.no_grad():
        described = readout.describe(torch.from_numpy(space.encode(codes)))
        time_columns, across_columns = (part.numpy() for part in readout.sliding(described))
        known = readout.known(described).numpy()
    sliding = {axis.tensor for axis in readout.axes}
    of_axis = np.array([axis.tensor for axis in readout.axes])
    reads = np.log(np.maximum(detail.reads, 1))
    fills = np.log(np.maximum(detail.fills, 1))
    rests: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
    # From the inside out: what a level serves is what enters below it.
    for c, (level, t) in reversed(list(enumerate(readout.kept))):
        if t not in sliding or space.workload.tensors[t].output:
            continue
        axes = np.flatnonzero(of_axis == t)
        below = [inner for inner, s in readout.kept if s == t and inner > level]
        served = reads[:, level, t] - known[:, 0, c] - (rests[below[0], t] if below else 0.0)
        fans = [x for x, fan in enumerate(readout.fans) if level <= fan < min([*below, 99])]
        if len(fans) == 1:
            _take(across, across_columns[:, fans[0]][:, axes], served)
        if level and any(s == t and outer < level for outer, s in readout.kept):
            rests[level, t] = fills[:, level, t] - known[:, 1, c]
            _take(in_time, time_columns[:, level - 1][:, axes], rests[level, t])


def _take(
    rows: list[Rows], columns: npt.NDArray[np.float32], targets: npt.NDArray[np.float64]
) -> None:
    """Keeps rows in which something slides; of one axis the second place stays empty."""
    slides = (np.abs(columns) > 1e-6).any(axis=(1, 2))
    padded = np.zeros((len(columns), AXES, columns.shape[2]), np.float32)
    padded[:, : columns.shape[1]] = columns
    rows.append(Rows(padded[slides], targets[slides].astype(np.float32)))


def _joined(rows: list[Rows]) -> Rows:
    if not rows:
        raise ConfigError("no case has tiles that slide; take more cases.")
    return Rows(*(np.concatenate(part) for part in zip(*rows, strict=True)))


def fit_rest(rest: nn.Module, rows: Rows, *, steps: int, seed: int) -> float:
    """Trains all members side by side, each on draws of its own; returns the last mean loss."""
    columns, targets = torch.from_numpy(rows.columns), torch.from_numpy(rows.targets)
    members = list(rest.members)  # type: ignore[arg-type]
    optimiser = torch.optim.AdamW(rest.parameters(), lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    generator = torch.Generator().manual_seed(seed)
    loss = torch.zeros(())
    for _ in range(steps):
        chosen = torch.randint(len(targets), (len(members), BATCH), generator=generator)
        seen = columns[chosen]
        slides = (seen.abs() > 1e-6).any(-1)
        found = torch.stack(
            [member(part / 3.0).squeeze(-1) for member, part in zip(members, seen, strict=True)]
        )
        left = torch.where(slides, found, torch.zeros_like(found)).sum(2) - targets[chosen]
        loss = nn.functional.huber_loss(left, torch.zeros_like(left), delta=0.02)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return float(loss.detach())


def train(
    cases: int = len(TRAINING),
    *,
    steps: int = STEPS,
    seed: int = 0,
    given: Sequence[Accelerator] = (),
) -> tuple[CountNetwork, int]:
    """A trained network, and the mappings scored for it: so many cases, steps of each part.

    Every second case is on one of the given machines, if there are any.
    """
    torch.manual_seed(seed)
    network = CountNetwork()
    drawn = (case(index, given if index % 2 else ()) for index in range(cases))
    in_time, across, queries = rows_of(drawn)
    fit_rest(network.in_time, in_time, steps=steps, seed=seed)
    fit_rest(network.across, across, steps=steps, seed=seed + 1)
    return network, queries


class Judged(NamedTuple):
    """Predictions of a case's mappings beside the truth: [B] each, but for the correlation."""

    errors: npt.NDArray[np.float64]
    spreads: npt.NDArray[np.float64]
    correlation: float


def judge(network: CountNetwork, found: Case, *, learnt: bool = True) -> Judged:
    """Errors of ln EDP, spreads of the ensemble, and the rank correlation, for one case.

    Args:
        network: what is judged.
        found: the case.
        learnt: False: the formula alone, without the networks.
    """
    space = MapSpace(found.workload, found.accelerator)
    codes = mappings(space, np.random.default_rng([found.index, 2]), JUDGED // 2, JUDGED // 2)
    truth = np.log(LoopNestModel().evaluate(space, codes).edp)
    readout = Readout(space, network)
    with torch.no_grad():
        described = readout.describe(torch.from_numpy(space.encode(codes)))
        if not learnt:
            described[:, readout.slides_at :] = 0.0
        values = readout.log_edp(described).double().numpy()
    predicted = values.mean(axis=0)
    return Judged(predicted - truth, values.std(axis=0), spearman(truth, predicted))


def reached(network: CountNetwork, cases: Sequence[Case], width: float, floor: float) -> Reached:
    """Figures over cases: of each case's mappings half are uniform, half from short walks."""
    judged = [judge(network, found) for found in cases]
    plain = [judge(network, found, learnt=False) for found in cases]
    errors = np.concatenate([one.errors for one in judged])
    spreads = np.concatenate([one.spreads for one in judged])
    inside = np.abs(errors) <= 1.645 * np.hypot(width * spreads, floor)
    sure = spreads <= floor
    correlations = [one.correlation for one in judged if np.isfinite(one.correlation)]
    return Reached(
        cases=len(judged),
        rows=len(errors),
        rmse=float(np.sqrt(np.mean(errors**2))),
        rmse_of_the_formula=float(np.sqrt(np.mean(np.concatenate([o.errors for o in plain]) ** 2))),
        worst=float(np.abs(errors).max()),
        spearman=float(np.mean(correlations)),
        spearman_worst=float(np.min(correlations)),
        inside_90=float(inside.mean()),
        inside_90_where_unsure=float(inside[~sure].mean()) if (~sure).any() else 1.0,
        unsure=float((~sure).mean()),
    )


def calibrate(network: CountNetwork, cases: Iterable[Case]) -> tuple[float, float]:
    """How many spreads of the ensemble a standard deviation is, and its least value.

    The least value covers rounding, which the ensemble knows nothing of; the factor is such that
    90 % of the truths of which the ensemble is unsure lie within 1.645 standard deviations.
    """
    judged = [judge(network, found) for found in cases]
    errors = np.abs(np.concatenate([one.errors for one in judged]))
    spreads = np.concatenate([one.spreads for one in judged])
    sure = spreads < 1e-5
    floor = float(max(np.quantile(errors[sure], 0.9) / 1.645, 1e-6)) if sure.any() else 1e-6
    unsure = ~(spreads <= floor)
    widths = np.sqrt(np.maximum((errors / 1.645) ** 2 - floor**2, 0.0)) / np.maximum(spreads, 1e-12)
    # Of few cases it may be unsure of nothing.
    return float(np.quantile(widths[unsure], 0.9)) if unsure.any() else 1.0, floor


def train_card(
    stem: Path,
    *,
    cases: int = len(TRAINING),
    steps: int = STEPS,
    seed: int = 0,
    judged: int = 100,
    given: Sequence[Accelerator] = (),
) -> MachineCard:
    """Trains, calibrates, judges and writes `stem.json` and `stem.safetensors`.

    Args:
        stem: of the two files.
        cases: layers on machines to learn from.
        steps: of each of the two networks.
        seed: of initial weights and of what is drawn.
        judged: cases at most of each set that calibrates or judges.
        given: machines that every second case is on, and that are judged apart.
    """
    torch.set_num_threads(1)
    started = time.perf_counter()
    network, queries = train(cases, steps=steps, seed=seed, given=given)
    seconds = time.perf_counter() - started
    width, floor = calibrate(network, map(case, CALIBRATION[:judged]))
    figures = {
        name: reached(network, list(map(case, indices[:judged])), width, floor)
        for name, indices in (("held_out", HELD_OUT), ("deeper", HELD_OUT_DEEPER))
    }
    if given:
        own = [case(index, given) for index in HELD_OUT_GIVEN[:judged]]
        figures["given"] = reached(network, own, width, floor)
    card = MachineCard(
        spread=width,
        floor=floor,
        cases=cases,
        queries=queries,
        seconds=round(seconds, 1),
        **figures,
    )
    write(stem, network, card)
    return load_network(stem.with_suffix(".json"))[0]
