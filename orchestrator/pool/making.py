"""Makes a cost model and its space where an evaluator is, and says what one takes of Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload


@dataclass(frozen=True)
class ModelMaker:
    """Makes model and space on an evaluator.

    Attributes:
        name: of the cost model.
        workload: the operation.
        accelerator: the machine.
        settings: of the model.
    """

    name: str
    workload: Workload
    accelerator: Accelerator
    settings: Mapping[str, Any]

    @property
    def cpus(self) -> float:
        """Processors that an evaluator takes of Ray."""
        return cpus_of(self.settings)

    @property
    def gpus(self) -> float:
        """GPUs likewise."""
        return float(self.settings.get("gpus", 0.0))

    def __call__(self) -> tuple[Any, Any]:
        """The model and the space."""
        from costmodel.models import cost_model_entry

        entry = cost_model_entry(self.name)
        assert entry.space is not None
        space = entry.space(self.workload, self.accelerator)
        return entry.model(self.accelerator, self.settings), space


def cpus_of(settings: Mapping[str, Any]) -> float:
    """Processors that an evaluator of a model with these settings takes of Ray."""
    return float(settings.get("cpus", 1.0))
