"""The training loop, and the figures that a run reports.

Nothing here knows of Ray: `orchestrator.training.train` hosts `fit` on one or many workers.
Letters: `B` rows of a batch, `F` raw values per point, `O` targets.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from mapspace.errors import ConfigError, MapspaceError
from surrogate import checkpoint
from surrogate.metrics import Figures, figures
from surrogate.network import NetworkConfig, SurrogateNetwork
from surrogate.options import CurvePoint, FitOptions
from surrogate.recipes import LOSSES, RECIPES, make_optimiser, recipe_of, schedule
from surrogate.shards import Dataset
from surrogate.stream import Batches, HeldOut, hold_out, shards_for

__all__ = ["RECIPES", "FitOptions", "Fitted", "Progress", "Worker", "fit"]

Criterion: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

WHITENING_SHARDS = 16
WHITENING_ROWS_PER_SHARD = 8192
LEAST_FEATURE_STD = 0.1
# Of the held-out rows, for a point of the curve.
MOST_CURVE_ROWS = 10_000
ROWS_AT_ONCE = 8192


# Of a stream: the epoch, and batches of it that were given out.
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Worker:
    """One of the processes that train together."""

    rank: int = 0
    count: int = 1
    distribute: Callable[[nn.Module], nn.Module] | None = None
    """Makes backward passes average gradients over the workers."""
    device: str = "cpu"
    """Where this process trains, as torch calls it."""
    gather: Callable[[Place], Sequence[Place]] | None = None
    """Tells all workers where each of their streams stands; called by all of them at once."""


@dataclass(frozen=True)
class Progress:
    """Where a training run stands; `save` writes a checkpoint that `fit` continues exactly."""

    step: int
    steps: int
    views: int
    loss: float
    """Mean loss since the last report."""
    seconds: float
    save: Callable[[Path], None]


@dataclass(frozen=True)
class Fitted:
    """A trained network and what it reached on the held-out problems."""

    network: SurrogateNetwork
    """On the CPU, wherever it was trained."""
    figures: Figures
    curve: tuple[CurvePoint, ...]
    """A point per `checkpoint_views`, and one at the end; empty but for the first worker."""
    views: int
    rows: int
    seconds: float


def fit(
    dataset: Dataset,
    options: FitOptions,
    *,
    report: Callable[[Progress], None] | None = None,
    resume: Path | None = None,
    worker: Worker | None = None,
) -> Fitted:
    """Trains a surrogate.

    A run that is continued from a checkpoint ends with the weights of an undisturbed one: exactly
    on a CPU; sums on a GPU have no fixed order.

    Args:
        dataset: Training rows and held-out problems.
        options: Recipe, length, seed.
        report: Called after every `checkpoint_views` views and at the end.
        resume: Checkpoint folder to continue.
        worker: This process's place among several; each calls `fit`.

    Raises:
        ConfigError: If the options do not fit the data set, or the checkpoint is of another run.
        DataError: If a shard or the checkpoint is damaged.
        MapspaceError: If the loss is no longer finite.
    """
    worker = worker or Worker()
    device = torch.device(worker.device)
    recipe = recipe_of(options)
    shards = shards_for(dataset, options.rows)
    held_out = hold_out(dataset, options.held_out_problems)
    rows = sum(shard.rows for shard in dataset.manifest.shards[:shards])
    views = options.views or recipe.views or (recipe.epochs or 1) * rows
    steps = max(1, views // recipe.batch_size)
    batches = _batches(dataset, held_out, options, worker)
    network = build(dataset, recipe.network, seed=options.seed)
    if resume is None:
        whiten(network, dataset, shards)
    network.to(device)
    optimiser = make_optimiser(recipe, network)
    started = time.perf_counter()
    state = _start(options, dataset, worker)
    if resume is not None:
        state = _resumed(checkpoint.load(resume, network, optimiser), state, resume)
        started -= state.seconds
        batches.seek(*state.place_of(worker.rank))
    trained = worker.distribute(network) if worker.distribute else network
    criterion = _criterion(network, options, recipe.edp_weight)
    few = held_out.thinned(MOST_CURVE_ROWS)
    between = max(1, options.checkpoint_views // recipe.batch_size)

    network.train()
    losses: list[torch.Tensor] = []
    for step in range(state.step, steps):
        schedule(recipe, optimiser, step / steps)
        losses.append(_descend(trained, criterion, optimiser, batches.next(), options))
        done = step + 1
        if done % between and done < steps:
            continue
        mean_loss = _finite(float(torch.stack(losses).mean()))
        losses.clear()
        seconds, seen = time.perf_counter() - started, done * recipe.batch_size
        state = _moved(state, batches, done, seconds, worker)
        if worker.rank == 0:
            point = _curve_point(network, criterion, few, seen, seconds, mean_loss)
            state = state.model_copy(update={"curve": (*state.curve, point)})
        if report is not None:
            save = functools.partial(
                checkpoint.save, network=network, optimiser=optimiser, state=state
            )
            report(Progress(done, steps, seen, mean_loss, seconds, save))
    network.eval()
    seconds = time.perf_counter() - started
    reached = judge(network, held_out)
    seen = steps * recipe.batch_size
    return Fitted(network.cpu(), reached, state.curve, seen, rows, seconds)


def _descend(
    trained: nn.Module,
    criterion: Criterion,
    optimiser: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, torch.Tensor],
    options: FitOptions,
) -> torch.Tensor:
    """One step on points `[B, F]` and costs `[B, O]`; its loss."""
    points, costs = batch
    with _arithmetic(options, points.device):
        outputs = trained(points)
    loss = criterion(outputs, costs)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.detach()


def _moved(
    state: checkpoint.State, batches: Batches, done: int, seconds: float, worker: Worker
) -> checkpoint.State:
    """A state after more steps."""
    where = {"step": done, "epoch": batches.epoch, "batch": batches.batch, "seconds": seconds}
    places = tuple(worker.gather((batches.epoch, batches.batch))) if worker.gather else ()
    return state.model_copy(update={**where, "places": places})


def _batches(dataset: Dataset, held_out: HeldOut, options: FitOptions, worker: Worker) -> Batches:
    """What a worker trains on.

    Raises:
        ConfigError: If batches cannot be split among so many workers.
    """
    whole = recipe_of(options).batch_size
    if whole % worker.count:
        raise ConfigError(
            f"workers: expected a divisor of the batch size {whole}, got {worker.count}."
        )
    return Batches(
        dataset,
        held_out,
        shards=shards_for(dataset, options.rows),
        batch_size=whole // worker.count,
        pool_rows=options.pool_rows,
        seed=options.seed,
        rank=worker.rank,
        workers=worker.count,
        device=torch.device(worker.device),
    )


def _start(options: FitOptions, dataset: Dataset, worker: Worker) -> checkpoint.State:
    return checkpoint.State(
        options=options,
        config_hash=dataset.manifest.config_hash,
        workers=worker.count,
        step=0,
        epoch=0,
        batch=0,
        seconds=0.0,
    )


def _resumed(found: checkpoint.State, fresh: checkpoint.State, folder: Path) -> checkpoint.State:
    """What a checkpoint holds.

    Raises:
        ConfigError: If it is of another run than the one that starts here.
    """
    if any(
        getattr(found, name) != getattr(fresh, name)
        for name in ("options", "config_hash", "workers")
    ):
        raise ConfigError(f"{folder} is a checkpoint of a run with another configuration.")
    return found


def build(dataset: Dataset, config: NetworkConfig, *, seed: int) -> SurrogateNetwork:
    """A network with fresh weights that depend on `seed` only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SurrogateNetwork(config, dataset.manifest.structure, len(dataset.manifest.costs))


def whiten(network: SurrogateNetwork, dataset: Dataset, shards: int) -> None:
    """Sets what features and targets are whitened by.

    Raw points and targets have their moments in the manifest; those of physical features are
    taken from rows spread over the first `shards` shards.
    """
    statistics = dataset.manifest.statistics
    targets = statistics.costs if network.config.targets == "raw" else statistics.log_costs
    if network.config.features == "raw":
        mean, std = np.array(statistics.inputs.mean), statistics.inputs.std
    else:
        parts = []
        for position in np.unique(np.linspace(0, shards - 1, WHITENING_SHARDS, dtype=int)):
            inputs = dataset.read(int(position)).inputs
            stride = max(1, len(inputs) // WHITENING_ROWS_PER_SHARD)
            with torch.no_grad():
                parts.append(network.features(torch.from_numpy(inputs[::stride].copy())))
        features = torch.cat(parts).double()
        mean, std = features.mean(0).numpy(), features.std(0, correction=0).numpy()
        # Logarithms have a natural scale. A feature that hardly varies in random mappings, such
        # as what only mappings without L2 loops have, must not be blown up where it matters.
        std = np.maximum(std, LEAST_FEATURE_STD)
    with torch.no_grad():
        network.feature_mean.copy_(torch.from_numpy(mean))
        network.feature_std.copy_(torch.from_numpy(std))
        network.target_mean.copy_(torch.tensor(targets.mean))
        network.target_std.copy_(torch.from_numpy(targets.std))


def judge(network: SurrogateNetwork, held_out: HeldOut) -> Figures:
    """The figures of a network, on its device, on held-out problems."""
    device = network.target_mean.device
    predicted = []
    with torch.no_grad():
        for at in range(0, len(held_out.samples.inputs), ROWS_AT_ONCE):
            points = torch.from_numpy(held_out.samples.inputs[at : at + ROWS_AT_ONCE]).to(device)
            predicted.append(network.log_edp(points).double().cpu().numpy())
    return figures(held_out.sizes, held_out.log_edp, np.concatenate(predicted))


def _curve_point(
    network: SurrogateNetwork,
    criterion: Criterion,
    held_out: HeldOut,
    views: int,
    seconds: float,
    loss: float,
) -> CurvePoint:
    """What training has come to after so many views and seconds, on held-out problems too."""
    device = network.target_mean.device
    points = torch.from_numpy(held_out.samples.inputs).to(device)
    costs = torch.from_numpy(held_out.samples.costs).to(device)
    with torch.no_grad():
        held_out_loss = float(criterion(network(points), costs))
    reached = judge(network, held_out)
    return CurvePoint(
        views=views,
        seconds=round(seconds, 3),
        loss=loss,
        held_out_loss=_finite(held_out_loss),
        rmse=reached.rmse,
        spearman=reached.spearman,
    )


def _criterion(network: SurrogateNetwork, options: FitOptions, edp_weight: float) -> Criterion:
    """The weighted mean loss of whitened outputs [B, O] against costs [B, O]."""
    weights = torch.ones_like(network.target_mean)
    weights[-2:] = edp_weight
    weights /= weights.mean()
    errors = LOSSES[options.loss]

    def criterion(outputs: torch.Tensor, costs: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = (
            errors(outputs.float(), network.whiten(costs), reduction="none") * weights
        ).mean()
        return mean

    return criterion


def _arithmetic(options: FitOptions, device: torch.device) -> torch.autocast:
    """Where layers compute in the precision that the options want."""
    return torch.autocast(
        device.type, dtype=torch.bfloat16, enabled=options.precision == "bfloat16"
    )


def _finite(loss: float) -> float:
    """The loss itself.

    Raises:
        MapspaceError: If it is not finite.
    """
    if not math.isfinite(loss):
        raise MapspaceError(f"The training diverged: its loss is {loss}.")
    return loss
