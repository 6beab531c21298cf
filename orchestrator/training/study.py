"""Trainings that differ in one thing: the loss function, or how many rows they see.

What Figure 7 of Mind Mappings (ASPLOS 2021, section 5.5) shows of the paper's surrogate: the loss
over the training (7a), loss functions (7b) and sizes of the data set (7c). Every training is a run
of `orchestrator.training.train` in a folder of its own, so the same command continues the study.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, write_atomically
from orchestrator.report.document import Table
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record
from orchestrator.runs.ray_runtime import ray_runtime
from orchestrator.runs.run_folder import Experiment
from orchestrator.training.study_config import Outcome, SearchOptions, TrainingStudy
from orchestrator.training.study_report import study_table, write_training_report
from orchestrator.training.surrogate_report import FIGURE_FILE, REPORT_FILE
from orchestrator.training.train import TrainExperiment, check
from surrogate.options import FitOptions, read_curve
from surrogate.shards import Dataset

if TYPE_CHECKING:
    from costmodel.problems.workloads import Workload
    from surrogate.predictor import Card

SEARCH_FILE = "search.json"
Outcomes = dict[str, Outcome]


class StudyExperiment(Experiment[TrainingStudy, Outcomes]):
    """A training study in its folder; every training is a run in a folder of its own there."""

    command = "train"
    words = "a training study"
    unit = "trainings"
    config = TrainingStudy
    file = "training-study.json"
    page = REPORT_FILE
    quick: ClassVar = {
        "kind": "training-study",
        "name": "quick",
        "training": {"data": "{data}", "views": 2048, "held_out_problems": 5},
        "losses": ["huber"],
        "rows": [4000],
    }

    @classmethod
    def prepare(cls, config: TrainingStudy, where: str) -> TrainingStudy:
        """Looks at all trainings and searches, before hours go into the first."""
        for training in config.trainings().values():
            dataset = check(training)
        if config.search is not None:
            _workloads(config.search, dataset)
        return config

    def work(self, folder: Place, claim: Claim) -> Outcomes:
        """Runs or continues the trainings one after another."""
        trainings = {
            name: TrainExperiment(
                training.named(name), say=self.say, bars=self.bars, store=self.store
            )
            for name, training in self.plan.trainings().items()
        }
        finished = all(
            (folder / name / training.result_file).exists() for name, training in trainings.items()
        )
        cards = {}
        if not finished:
            self.progress.stage("trainings", unit=self.unit, total=len(trainings))
        with nullcontext() if finished else ray_runtime():
            for name, training in trainings.items():
                claim.check()
                if not finished:
                    self.progress.begin_task(name, name)
                cards[name] = training.run(folder / name)
                self.taken += training.taken
                self.made += training.made
                if not finished:
                    self.progress.end_task(name)
                    self.progress.advance()
        return {
            name: self._outcome(folder / name, training.plan, cards[name])
            for name, training in trainings.items()
        }

    def draw(self, result: Outcomes, folder: Path) -> None:
        """Writes table and figure."""
        write_training_report(self.plan, result, folder)

    def tables(self, result: Outcomes, folder: Path) -> Sequence[Table]:
        """A row per training."""
        return [study_table(result)]

    def record(self, result: Outcomes, folder: Path) -> Record:
        """Trainings are steps of a metric, in the order of the table."""
        weights = " ".join(one.card.sha256 for one in result.values())
        return Record(
            content=hashlib.sha256(weights.encode()).hexdigest()[:16],
            metrics=[
                (name, value, step)
                for step, one in enumerate(result.values())
                for name, value in one.figures().items()
            ],
            files=(folder / REPORT_FILE, folder / FIGURE_FILE),
        )

    def _outcome(self, folder: Place, options: FitOptions, card: Card) -> Outcome:
        search, found = self.plan.search, None
        if search is not None:
            found = _searched(folder, card, search, Dataset(self.plan.training.data))
        return Outcome(options, card, read_curve(folder), found)


def run_training_study(study: TrainingStudy, folder: Place | str) -> Outcomes:
    """Runs or continues the trainings of a study, as `Experiment.run` does."""
    return StudyExperiment(StudyExperiment.prepare(study, study.name)).run(folder)


def _workloads(search: SearchOptions, dataset: Dataset) -> list[Workload]:
    """The problems that surrogates are tried out on.

    Raises:
        ConfigError: If one is unknown, or of another family.
    """
    from costmodel.problems.workloads import workload

    found = [workload(name) for name in search.workloads]
    structure = dataset.manifest.structure
    for one in found:
        if one.dimension_names != structure.dimensions:
            raise ConfigError(
                f"search.workloads: expected dimensions {' '.join(structure.dimensions)} "
                f"({structure.family}), got {one.name} with {' '.join(one.dimension_names)}."
            )
    return found


def _searched(folder: Place, card: Card, search: SearchOptions, dataset: Dataset) -> float:
    """What the searches find, as `Outcome.normalised_edp` says; kept beside the surrogate."""
    path = folder / SEARCH_FILE
    of: dict[str, Any] = {**search.model_dump(mode="json"), "surrogate": card.sha256}
    kept = read_json(path, DataError) if path.exists() else {}
    if kept.get("of") != of:
        found = _workloads(search, dataset)
        edps = {one.name: _edps(folder, one, search, dataset) for one in found}
        kept = {"of": of, "normalised_edp": edps}
        write_atomically(path, json.dumps(kept, indent=1).encode())
    logs = [math.log(edp) for edps in kept["normalised_edp"].values() for edp in edps]
    return math.exp(sum(logs) / len(logs))


def _edps(folder: Place, work: Workload, search: SearchOptions, dataset: Dataset) -> list[float]:
    """EDP over the algorithmic minimum of the best mapping, per seed."""
    import searchers
    import surrogate
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.machines.bounds import algorithmic_minimum
    from costmodel.map_space.map_space import MapSpace

    space = MapSpace(work, dataset.manifest.config.accelerator)
    predictor = surrogate.load(folder)
    least = algorithmic_minimum(space.workload, space.accelerator).edp
    found = []
    for seed in range(search.seeds):
        evaluator = searchers.Evaluator(LoopNestModel(), space, iterations=search.iterations)
        searcher = searchers.make(
            "gradient", space, seed=seed, method=search.method, predictor=predictor
        )
        searcher.run(evaluator)
        found.append(evaluator.best_loss / least)
    return found
