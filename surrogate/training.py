"""The training loop: recipes, schedules, checkpoints, and the figures that a run reports.

Nothing here knows of Ray: `orchestrator.train` hosts `fit` on one or many workers. Letters: `B`
rows of a batch, `F` raw values per point, `O` targets.
"""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from costmodel.errors import ConfigError, DataError, MapspaceError
from costmodel.loading import StrictModel
from surrogate.metrics import Figures, figures
from surrogate.network import NetworkConfig, SurrogateNetwork
from surrogate.shards import Dataset
from surrogate.stream import Batches, HeldOut, hold_out, shards_for

NETWORK_FILE = "network.safetensors"
OPTIMISER_FILE = "optimiser.safetensors"
STATE_FILE = "state.json"
WHITENING_SHARDS = 16
WHITENING_ROWS_PER_SHARD = 8192
LEAST_FEATURE_STD = 0.1

Positive = Annotated[int, Field(strict=True, ge=1)]


class Recipe(StrictModel):
    """How a surrogate is trained. A view is one training row seen once."""

    network: NetworkConfig
    """What is trained."""
    optimiser: Literal["sgd", "adamw"]
    """SGD with momentum 0.9, or AdamW with weight decay 0.01."""
    learning_rate: float
    """Highest learning rate."""
    schedule: Literal["steps", "one-cycle"]
    """x0.1 after each quarter, or one cosine cycle up and down (Smith and Topin 2018)."""
    batch_size: int
    """Rows of a batch, all workers together."""
    views: int | None = None
    """Length of the training in views ..."""
    epochs: int | None = None
    """... or in passes over the data."""
    edp_weight: float = 1.0
    """Weight of energy and cycles in the loss, against 1 for every other target."""


RECIPES: dict[str, Recipe] = {
    # Hegde et al., Mind Mappings (ASPLOS 2021), section 5.5: 100 epochs, x0.1 every 25.
    "paper": Recipe(
        network=NetworkConfig(features="raw", targets="raw", body="perceptron"),
        optimiser="sgd",
        learning_rate=1e-2,
        schedule="steps",
        batch_size=128,
        epochs=100,
    ),
    "fast": Recipe(
        network=NetworkConfig(features="physical", targets="log", body="residual"),
        optimiser="adamw",
        learning_rate=4e-3,
        schedule="one-cycle",
        batch_size=1024,
        views=3_000_000,
        edp_weight=3.0,
    ),
}


class FitOptions(StrictModel):
    """What one training run decides besides its recipe."""

    recipe: Literal["paper", "fast"] = "fast"
    """Key of `RECIPES`."""
    views: Positive | None = None
    """Length of the training in views; null: the recipe's."""
    rows: Positive | None = None
    """Use only the first shards, as many as hold so many rows; null: all."""
    held_out_problems: Positive = 100
    """The last so many problems are never trained on; the figures come from them."""
    pool_rows: Positive = 1_000_000
    """Rows that are shuffled together; decides the memory that training needs."""
    checkpoint_views: Positive = 200_000
    """Views between checkpoints."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Decides initial weights and every order."""


@dataclass(frozen=True)
class Worker:
    """One of the processes that train together."""

    rank: int = 0
    count: int = 1
    distribute: Callable[[nn.Module], nn.Module] | None = None
    """Makes backward passes average gradients over the workers."""


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
    figures: Figures
    views: int
    rows: int
    seconds: float


class _State(StrictModel):
    """The part of a checkpoint that is no tensor."""

    options: FitOptions
    config_hash: str
    workers: int
    step: int
    epoch: int
    batch: int
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

    A run that is continued from a checkpoint ends with the weights of an undisturbed one.

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
    recipe = RECIPES[options.recipe]
    if recipe.batch_size % worker.count:
        raise ConfigError(
            f"workers: expected a divisor of the batch size {recipe.batch_size}, "
            f"got {worker.count}."
        )
    shards = shards_for(dataset, options.rows)
    held_out = hold_out(dataset, options.held_out_problems)
    rows = sum(shard.rows for shard in dataset.manifest.shards[:shards])
    views = options.views or recipe.views or (recipe.epochs or 1) * rows
    steps = max(1, views // recipe.batch_size)
    batches = Batches(
        dataset,
        held_out,
        shards=shards,
        batch_size=recipe.batch_size // worker.count,
        pool_rows=options.pool_rows,
        seed=options.seed,
        rank=worker.rank,
        workers=worker.count,
    )
    network = build(dataset, recipe.network, seed=options.seed)
    optimiser = _optimiser(recipe, network)
    started = time.perf_counter()
    first = 0
    if resume is None:
        whiten(network, dataset, shards)
    else:
        state = _load(resume, network, optimiser)
        if (state.options, state.config_hash, state.workers) != (
            options,
            dataset.manifest.config_hash,
            worker.count,
        ):
            raise ConfigError(f"{resume} is a checkpoint of a run with another configuration.")
        first = state.step
        started -= state.seconds
        batches.seek(state.epoch, state.batch)
    trained = worker.distribute(network) if worker.distribute else network
    weights = torch.ones(len(dataset.manifest.costs))
    weights[-2:] = recipe.edp_weight
    weights /= weights.mean()
    between = max(1, options.checkpoint_views // recipe.batch_size)

    network.train()
    losses: list[torch.Tensor] = []
    for step in range(first, steps):
        _schedule(recipe, optimiser, step / steps)
        samples = batches.next()
        # Copies: a batch is a view of read-only or shared memory.
        points, costs = torch.tensor(samples.inputs), torch.tensor(samples.costs)
        errors = nn.functional.smooth_l1_loss(
            trained(points), network.whiten(costs), reduction="none"
        )
        loss = (errors * weights).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
        done = step + 1
        if report and (done % between == 0 or done == steps):
            seconds = time.perf_counter() - started
            mean_loss = float(torch.stack(losses).mean())
            if not math.isfinite(mean_loss):
                raise MapspaceError(f"The training diverged: its loss is {mean_loss}.")
            state = _State(
                options=options,
                config_hash=dataset.manifest.config_hash,
                workers=worker.count,
                step=done,
                epoch=batches.epoch,
                batch=batches.batch,
                seconds=seconds,
            )
            report(
                Progress(
                    step=done,
                    steps=steps,
                    views=done * recipe.batch_size,
                    loss=mean_loss,
                    seconds=seconds,
                    save=functools.partial(
                        _save, network=network, optimiser=optimiser, state=state
                    ),
                )
            )
            losses.clear()
    network.eval()
    return Fitted(
        network=network,
        figures=judge(network, held_out),
        views=steps * recipe.batch_size,
        rows=rows,
        seconds=time.perf_counter() - started,
    )


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
    """The figures of a network on held-out problems."""
    predicted = []
    with torch.no_grad():
        for at in range(0, len(held_out.samples.inputs), 8192):
            points = torch.from_numpy(held_out.samples.inputs[at : at + 8192])
            predicted.append(network.log_edp(points).double().numpy())
    return figures(held_out.sizes, held_out.log_edp, np.concatenate(predicted))


def _optimiser(recipe: Recipe, network: nn.Module) -> torch.optim.Optimizer:
    parameters = list(network.parameters())
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=recipe.learning_rate, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=1e-2, fused=True)


def _schedule(recipe: Recipe, optimiser: torch.optim.Optimizer, progress: float) -> None:
    """Sets the learning rate for a progress in [0, 1); a cycle moves Adam's momentum against it."""
    rate, momentum = 0.1 ** int(4 * progress), None
    if recipe.schedule == "one-cycle":
        warm_up = 0.2
        low, peak = (1 / 25, 1.0) if progress < warm_up else (1e-4, 1.0)
        part = progress / warm_up if progress < warm_up else (1 - progress) / (1 - warm_up)
        height = (1 - math.cos(math.pi * part)) / 2
        rate, momentum = low + (peak - low) * height, 0.95 - 0.10 * height
    for group in optimiser.param_groups:
        group["lr"] = recipe.learning_rate * rate
        if momentum is not None and "betas" in group:
            group["betas"] = (momentum, group["betas"][1])


def _save(
    folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer, state: _State
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), folder / NETWORK_FILE)
    moments = {
        f"{index}.{name}": value
        for index, slots in optimiser.state_dict()["state"].items()
        for name, value in slots.items()
        if isinstance(value, torch.Tensor)
    }
    save_file(moments, folder / OPTIMISER_FILE)
    (folder / STATE_FILE).write_text(state.model_dump_json())


def _load(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> _State:
    try:
        state = _State.model_validate_json((folder / STATE_FILE).read_text())
        network.load_state_dict(load_file(folder / NETWORK_FILE))
        slots: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in load_file(folder / OPTIMISER_FILE).items():
            index, name = key.split(".")
            slots.setdefault(int(index), {})[name] = value
    except (OSError, ValidationError, SafetensorError, RuntimeError, json.JSONDecodeError) as error:
        raise DataError(f"checkpoint {folder} is damaged: {str(error).splitlines()[0]}") from error
    optimiser.load_state_dict(
        {"state": slots, "param_groups": optimiser.state_dict()["param_groups"]}
    )
    return state
