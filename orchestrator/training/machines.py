"""`mapspace train` of a surrogate for every machine: random ones, and one's own among them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from costmodel.machines.accelerators import Accelerator, accelerator
from mapspace.errors import ConfigError
from mapspace.storage import Place, write_atomically
from mapspace.strict_yaml import FileName, Seed, Size, StrictModel
from orchestrator.report.document import LEFT, Row, Table
from orchestrator.report.text_table import table_lines
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record
from orchestrator.runs.run_folder import Experiment

if TYPE_CHECKING:
    from surrogate.machine_surrogate import MachineCard

STEM = "machines"


class MachinesConfig(StrictModel):
    """A training over machines x layers, which the exact model labels on the way."""

    kind: Literal["train-machines"]
    name: FileName
    """Names the folder, runs/NAME."""
    description: str = ""
    """What the surrogate is for."""
    accelerators: tuple[str, ...] = ()
    """Machines that every second case is on, presets or YAML files; else all are random."""
    cases: Size = 4000
    """Layers on machines to learn from."""
    steps: Size = 6000
    """Of each of its two networks."""
    judged: Size = 100
    """Held-out cases of each kind that judge it, at most 100."""
    seed: Seed = 0
    """Of initial weights and of what they learn from first."""

    def machines(self) -> list[Accelerator]:
        """The machines by their names.

        Raises:
            ConfigError: there is none of a name, or the surrogate cannot be for one.
        """
        # Torch comes with it, which takes seconds.
        from costmodel.problems.workloads import workload
        from surrogate.machine_surrogate import FEWEST_LEVELS, MOST_LEVELS, why_not

        found = [accelerator(name) for name in self.accelerators]
        for machine in found:
            reason = why_not(workload("gemm-512"), machine, (FEWEST_LEVELS, MOST_LEVELS))
            if reason is not None:
                raise ConfigError(f"accelerators: no surrogate for {machine.name}: {reason}.")
        return found


class MachinesExperiment(Experiment[MachinesConfig, "MachineCard"]):
    """Such a training in its folder: minutes on one core, begun anew where it was cut off."""

    command = "train"
    words = "a training run for machines"
    config = MachinesConfig
    file = "train-machines.json"
    result_file = f"{STEM}.json"
    needed = (f"{STEM}.json", f"{STEM}.safetensors")
    kept = (f"{STEM}.safetensors", f"{STEM}.json")
    quick: ClassVar = {
        "kind": "train-machines",
        "name": "quick",
        "accelerators": ["mm256"],
        "cases": 12,
        "steps": 4,
        "judged": 2,
    }
    other: ClassVar = {"seed": 1}

    @classmethod
    def prepare(cls, config: MachinesConfig, where: str) -> MachinesConfig:
        """Looks at the machines."""
        config.machines()
        return config

    def identity(self) -> dict[str, Any]:
        """What decides the weights."""
        return {
            "experiment": self.plan.model_dump(mode="json"),
            "machines": [machine.hash for machine in self.plan.machines()],
        }

    def other_run(self, there: Any) -> str:
        """A training of other settings or machines; a description decides nothing."""
        mine, theirs = (json.loads(json.dumps(one)) for one in (self.identity(), there))
        for one in (mine, theirs):
            one["experiment"].pop("description", None)
        return "" if mine == theirs else "holds another training run (its settings differ)"

    def work(self, folder: Place, claim: Claim) -> MachineCard:
        """Trains in this process.

        Raises:
            ConfigError: no case has tiles that slide.
        """
        from surrogate.machine_training import train_card

        plan = self.plan
        self.progress.stage("training")
        with tempfile.TemporaryDirectory() as local:
            card = train_card(
                Path(local) / STEM,
                cases=plan.cases,
                steps=plan.steps,
                seed=plan.seed,
                judged=plan.judged,
                given=plan.machines(),
            )
            claim.check()
            # The card last: it says that the run is finished.
            for name in reversed(self.needed):
                write_atomically(folder / name, (Path(local) / name).read_bytes())
        return card

    def load(self, folder: Place) -> MachineCard:
        """Reads what the surrogate is said to be."""
        from surrogate.machine_surrogate import read_card

        return read_card(folder / self.result_file)

    def text(self, result: MachineCard, folder: Path) -> str:
        """How long it took, and how good it is on cases that it never saw."""
        rows: list[Row] = [
            (name, one.cases, one.rmse, one.rmse_of_the_formula, one.spearman, one.inside_90)
            for name, one in (
                ("three levels", result.held_out),
                ("two and four", result.deeper),
                ("your machines", result.given),
            )
            if one is not None
        ]
        header = ("held out", "cases", "RMSE of ln EDP", "formula alone", "Spearman", "in 90 %")
        formats = (LEFT, "{:,}", "{:.4f}", "{:.4f}", "{:.5f}", "{:.3f}")
        table = Table("reached", "", header, formats, rows)
        first = f"Surrogate for machines {self.name}: {result.cases:,} cases, {result.seconds:g} s"
        return "\n".join([first, *table_lines(table)])

    def record(self, result: MachineCard, folder: Path) -> Record:
        """The figures of every set."""
        sets = {"held_out": result.held_out, "deeper": result.deeper, "given": result.given}
        metrics = [
            (f"{name}_{key}", float(value), 0)
            for name, one in sets.items()
            if one is not None
            for key, value in one.model_dump().items()
        ]
        return Record(result.sha256[:16], metrics, tuple(folder / name for name in self.needed))
