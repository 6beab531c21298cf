"""Trainings that differ in one thing: the loss function, or how many rows they see.

What Figure 7 of Mind Mappings (ASPLOS 2021, section 5.5) shows of the paper's surrogate: the loss
over the training (7a), loss functions (7b) and sizes of the data set (7c). Every training is a run
of `orchestrator.train` in a folder of its own, so the same command continues the study.
"""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from costmodel.errors import ConfigError
from costmodel.loading import StrictModel, load_yaml, validate
from orchestrator.generate import FolderName
from orchestrator.places import RUNS
from orchestrator.runtime import ray_runtime
from orchestrator.train import STEM, Training, check, run_train
from surrogate.options import CurvePoint, FitOptions, Loss, Positive, read_curve
from surrogate.storage import write_atomically

if TYPE_CHECKING:
    from costmodel.workload import Workload
    from surrogate.predictor import Card
    from surrogate.shards import Dataset

KIND = "training-study"
SEARCH_FILE = "search.json"


class SearchOptions(StrictModel):
    """How a surrogate is tried out: gradient searches through it, as by `mapspace search`."""

    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    """Problems of the surrogate's family, presets or YAML files."""
    iterations: Positive = 1000
    """Cost queries of a search."""
    seeds: Positive = 3
    """Searches of each problem."""


class TrainingStudy(StrictModel):
    """Trainings on the most rows with every loss, and on fewer rows with the first one."""

    kind: Literal["training-study"]
    name: FolderName
    """Names the folder, runs/NAME."""
    description: str = ""
    """What the study is for."""
    training: Training
    """What all trainings share."""
    losses: Annotated[tuple[Loss, ...], Field(min_length=1)]
    """The first one is the reference."""
    rows: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Sizes of the data set, ascending; the last one is the reference."""
    search: SearchOptions | None = None
    """How the surrogates are tried out; null: not at all."""

    def trainings(self) -> dict[str, Training]:
        """The runs by the name of their folder, the reference first."""
        pairs = [(loss, self.rows[-1]) for loss in self.losses]
        pairs += [(self.losses[0], rows) for rows in self.rows[-2::-1]]
        return {
            f"{loss}-{rows}": self.training.model_copy(update={"loss": loss, "rows": rows})
            for loss, rows in pairs
        }


@dataclass(frozen=True)
class Outcome:
    """A finished training of a study."""

    options: FitOptions
    card: Card
    curve: tuple[CurvePoint, ...]
    normalised_edp: float | None
    """Of the best mappings that searches through it found, over the algorithmic minimum; geometric
    mean over problems and seeds."""


def load_training_study(path: Path | str) -> TrainingStudy:
    """Reads a YAML file of kind training-study.

    Raises:
        ConfigError: If it is none; one line names the key.
    """
    data = load_yaml(path)
    if data.get("kind") != KIND:
        raise ConfigError(f"{path}: kind: expected {KIND}, got {data.get('kind')!r}.")
    study = validate(TrainingStudy, data, str(path))
    for name in ("loss", "rows"):
        if name in study.training.model_fields_set:
            raise ConfigError(f"{path}: training.{name}: varies, so give it outside of training.")
    if len(set(study.losses)) < len(study.losses):
        raise ConfigError(f"{path}: losses: expected different ones, got {list(study.losses)}.")
    if list(study.rows) != sorted(set(study.rows)):
        raise ConfigError(f"{path}: rows: expected ascending numbers, got {list(study.rows)}.")
    return study


def run_training_study(
    source: TrainingStudy | Path | str, output: Path | None = None, *, address: str | None = None
) -> Path:
    """Runs or continues the trainings one after another, then writes table and figure.

    Args:
        source: The study or its YAML file.
        output: A local folder; None: runs/NAME.
        address: Ray cluster, as for `run_train`.

    Returns:
        The report.

    Raises:
        ConfigError: If the study is wrong, or the folder holds another one.
        DataError: If a shard is damaged; the message names it.
    """
    from orchestrator.training_report import write_training_report

    study = source if isinstance(source, TrainingStudy) else load_training_study(source)
    folder = output or RUNS / study.name
    trainings = study.trainings()
    # All of them before hours go into the first.
    for training in trainings.values():
        dataset = check(training)
    workloads = [] if study.search is None else _workloads(study.search, dataset)
    finished = all((folder / name / f"{STEM}.json").exists() for name in trainings)
    with nullcontext() if finished else ray_runtime(address):
        for name, training in trainings.items():
            run_train(training.named(name), folder / name, address=address)
    outcomes = {
        name: _outcome(folder / name, training, study.search, workloads, dataset)
        for name, training in trainings.items()
    }
    return write_training_report(study, outcomes, folder)


def _workloads(search: SearchOptions, dataset: Dataset) -> list[Workload]:
    """The problems that surrogates are tried out on.

    Raises:
        ConfigError: If one is unknown, or of another family.
    """
    from costmodel.workload import workload

    found = [workload(name) for name in search.workloads]
    structure = dataset.manifest.structure
    for one in found:
        if one.dimension_names != structure.dimensions:
            raise ConfigError(
                f"search.workloads: expected dimensions {' '.join(structure.dimensions)} "
                f"({structure.family}), got {one.name} with {' '.join(one.dimension_names)}."
            )
    return found


def _outcome(
    folder: Path,
    options: FitOptions,
    search: SearchOptions | None,
    workloads: list[Workload],
    dataset: Dataset,
) -> Outcome:
    from surrogate.predictor import read_card

    card = read_card(folder / f"{STEM}.json")
    found = None if search is None else _searched(folder, card, search, workloads, dataset)
    return Outcome(options, card, read_curve(folder), found)


def _searched(
    folder: Path, card: Card, search: SearchOptions, workloads: list[Workload], dataset: Dataset
) -> float:
    """What the searches find, as `Outcome.normalised_edp` says; kept beside the surrogate."""
    path = folder / SEARCH_FILE
    of: dict[str, Any] = {**search.model_dump(mode="json"), "surrogate": card.sha256}
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("of") != of:
        edps = {one.name: _edps(folder, one, search, dataset) for one in workloads}
        kept = {"of": of, "normalised_edp": edps}
        write_atomically(path, json.dumps(kept, indent=1).encode())
    logs = [math.log(edp) for edps in kept["normalised_edp"].values() for edp in edps]
    return math.exp(sum(logs) / len(logs))


def _edps(folder: Path, work: Workload, search: SearchOptions, dataset: Dataset) -> list[float]:
    """EDP over the algorithmic minimum of the best mapping, per seed."""
    import searchers
    import surrogate
    from costmodel.bounds import algorithmic_minimum
    from costmodel.loopnest import LoopNestModel
    from costmodel.mapspace import MapSpace

    space = MapSpace(work, dataset.manifest.config.accelerator)
    predictor = surrogate.load(folder)
    least = algorithmic_minimum(space.workload, space.accelerator).edp
    found = []
    for seed in range(search.seeds):
        evaluator = searchers.Evaluator(LoopNestModel(), space, iterations=search.iterations)
        searchers.make("gradient", space, seed=seed, predictor=predictor).run(evaluator)
        found.append(evaluator.best_loss / least)
    return found
