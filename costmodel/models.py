"""The cost models: a lazy table of their entries, to which plug-ins add (docs/extending.md).

* `loopnest`: all mappings of a loop nest on any accelerator; the least value is proven by branch
  and bound (`orchestrator.benchmark.reference_optima`).
* `maestro`: the on-chip mappings of the tile that Marvel's off-chip search finds; enumerated.
* `maestro-corrected`: the same cost model with true counts; scores records.
* `tiling`: the tilings of a matrix product on a core with caches; enumerated.
* `command`: a user's own simulator with a command line; held against the best of the run.
* `python`: the same in Python, a function or a class.
* `tvm`: the same tilings, compiled and timed on this machine; held against the best of the run.

A new one takes a file with its entry and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from costmodel.cost_model_entry import CostModelEntry, RecordScorer
from mapspace import plugins
from mapspace.errors import ConfigError

__all__ = ["COST_MODELS", "CostModelEntry", "ModelName", "RecordScorer", "cost_model_entry"]

COST_MODELS = plugins.Registry(
    "cost model",
    plugins.MODELS,
    {
        "loopnest": "costmodel.loop_nest.entry:LOOP_NEST",
        "maestro": "costmodel.maestro.entry:MAESTRO",
        "maestro-corrected": "costmodel.maestro.entry:CORRECTED",
        "command": "costmodel.command.entry:COMMAND",
        "python": "costmodel.command.entry:PYTHON",
        "tiling": "costmodel.tiling.entry:TILING",
        "tvm": "costmodel.tiling.entry:TVM",
    },
)
DEFAULT_MODEL = "loopnest"


def cost_model_entry(name: str) -> CostModelEntry:
    """What is said of a cost model.

    Raises:
        ConfigError: the name is unknown (the message lists the known ones), or a plug-in that
            cannot be imported.
    """
    entry: CostModelEntry = COST_MODELS.load(name, CostModelEntry)
    return entry


def entry_of(experiment: Mapping[str, Any]) -> CostModelEntry:
    """The cost model of a benchmark; an experiment that names none is of loop nests."""
    return cost_model_entry(experiment.get("model", DEFAULT_MODEL))


def unit_of(experiment: Mapping[str, Any]) -> str:
    """The unit of a benchmark's objective."""
    return entry_of(experiment).units[experiment["objective"]]


def _with_a_space(name: str) -> str:
    try:
        entry = cost_model_entry(name)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if entry.space is None:
        raise ValueError(f"expected a cost model with a space to search, got {name}.")
    return name


ModelName = Annotated[str, Field(strict=True), AfterValidator(_with_a_space)]
"""A cost model that can be searched, by its name in `COST_MODELS`."""
