"""Checkpoints of a training run: weights, the optimiser's moments, and where the run stands.

They name no device: what was saved on a GPU continues on a CPU.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from mapspace.bounded_reading import read_text
from mapspace.errors import DataError
from mapspace.strict_yaml import StrictModel
from surrogate.options import CurvePoint, FitOptions

NETWORK_FILE = "network.safetensors"
OPTIMISER_FILE = "optimiser.safetensors"
STATE_FILE = "state.json"


class State(StrictModel):
    """The part of a checkpoint that is no tensor."""

    options: FitOptions
    """Of the run."""
    config_hash: str
    """Of the data set."""
    workers: int
    """That trained together."""
    step: int
    """Steps that are done."""
    epoch: int
    """Where the stream stands."""
    batch: int
    """Batches of that epoch that were given out."""
    places: tuple[tuple[int, int], ...] = ()
    """The same two of every worker, whose shards need not be equally many; empty: of one alone, or
    from before they were kept."""
    seconds: float
    """Training time so far."""
    curve: tuple[CurvePoint, ...] = ()
    """Points so far."""

    def place_of(self, rank: int) -> tuple[int, int]:
        """Epoch and batch where the stream of a worker stands."""
        return self.places[rank] if self.places else (self.epoch, self.batch)


def save(
    folder: Path, *, network: nn.Module, optimiser: torch.optim.Optimizer, state: State
) -> None:
    """Writes a checkpoint into a folder, made if need be."""
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


def load(folder: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> State:
    """Reads a checkpoint into a network and its optimiser, on whatever device they are.

    Raises:
        DataError: If a file is missing or damaged.
    """
    try:
        state = State.model_validate_json(read_text(folder / STATE_FILE, DataError))
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
