"""The surrogate for every machine as files and as a predictor; what it is not for, by name.

It is two files with one stem: `machines.safetensors` (the two small networks) and `machines.json`.
Letters: `B` points, `F` raw values per point, `G` columns of the description.
"""

from __future__ import annotations

import copy
import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load, save

from costmodel.costs import POWERS, Objective
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.machines.levels import Level
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.bounded_reading import LARGEST_FILE, read_bytes, read_json
from mapspace.errors import ConfigError, ContractError, DataError
from mapspace.storage import Place, write_atomically
from mapspace.strict_yaml import PositiveNumber, Size, StrictModel, validate
from surrogate.count_network import MEMBERS, WIDTH, CountNetwork, Readout

FORMAT = 1
SHIPPED = Path(__file__).parent / "weights" / "machines.json"
ROWS_AT_ONCE = 8192
# e^60 is far above every normalised EDP, and its exponential stays finite.
LARGEST_LOG_EDP = 60.0
# Points from which the spread of raw values is taken.
DRAWN = 256
FEWEST_LEVELS, MOST_LEVELS = 2, 4

# Keys of a level that the readout does not know, with what they are where they do nothing.
_UNKNOWN = (
    "block_words", "cluster_size", "address_pj", "leakage_pj", "hop_energy_pj", "router_pj",
    "ingress_pj", "fill_latency", "drain_latency", "beside",
)  # fmt: skip


class Reached(StrictModel):
    """Figures over cases that nothing was chosen by."""

    cases: Size
    """Layers on machines."""
    rows: Size
    """Their mappings: half uniform, half the ends of short walks."""
    rmse: float
    """Root of the mean squared error of ln EDP."""
    rmse_of_the_formula: float
    """The same without the networks."""
    worst: float
    """The largest error."""
    spearman: float
    """Rank correlation within a case, mean over cases."""
    spearman_worst: float
    """The least of them."""
    inside_90: float
    """Share of the truths in the 90 % interval."""
    inside_90_where_unsure: float
    """The same of the mappings in which tiles slide, so that members differ."""
    unsure: float
    """Share of the mappings that are such."""


class MachineCard(StrictModel):
    """What the JSON beside the weights says."""

    format: int = FORMAT
    """Version of this layout."""
    members: Size = MEMBERS
    """Of the ensemble."""
    width: Size = WIDTH
    """Of the networks."""
    levels: tuple[Size, Size] = Field(default=(FEWEST_LEVELS, MOST_LEVELS))
    """Fewest and most memory levels in training."""
    spread: PositiveNumber
    """How many spreads of the ensemble a standard deviation is."""
    floor: PositiveNumber
    """Its least value, in ln EDP."""
    sha256: str = ""
    """Of the weights."""
    held_out: Reached
    """On three levels."""
    deeper: Reached
    """On two and four levels."""
    given: Reached | None = None
    """On the machines that the training was for; null: it was for random ones alone."""
    cases: Size
    """Layers on machines in training."""
    queries: Size
    """Mappings that the exact model scored for training."""
    seconds: PositiveNumber
    """Training, labels included."""

    @property
    def training(self) -> dict[str, float]:
        """What a bill is made of, by the names of other cards."""
        return {"rows": self.queries, "seconds": self.seconds}


def why_not(workload: Workload, accelerator: Accelerator, levels: tuple[int, int]) -> str | None:
    """Why the surrogate cannot answer for a workload on a machine, or None."""
    count = len(accelerator.levels)
    if not levels[0] <= count <= levels[1]:
        return f"it knows {levels[0]} to {levels[1]} memory levels, not {count}"
    for key, known in (
        ("bypass", "none"), ("overflow", "invalid"), ("factors", "perfect"),
        ("output_fills", "elided"),
    ):  # fmt: skip
        if getattr(accelerator, key) != known:
            return f"it knows {key}: {known}, not {getattr(accelerator, key)}"
    for level in accelerator.levels:
        for key in _UNKNOWN:
            if getattr(level, key) != Level.model_fields[key].default:
                return f"it does not know {key} (of {level.name})"
        if level.spatial is not None and not (level.spatial.multicast and level.spatial.reduction):
            return f"it knows networks that hand words to all children, not that of {level.name}"
    for tensor in workload.tensors:
        for axis in tensor.axes:
            if len(axis.terms) > 2 or (tensor.output and len(axis.terms) > 1):
                return f"it does not know an axis such as that of {tensor.name}"
    return None


class MachinePredictor:
    """Predicted ln EDP of one space's points: satisfies `searchers.gradient.Predictor`.

    Attributes:
        card: what the surrogate is.
        scale: [F] standard deviations of raw values of feasible mappings, all > 0.
        objective: what it predicts; where the methods say EDP, read this.
    """

    objective: Objective = "edp"

    def __init__(self, card: MachineCard, network: CountNetwork, space: MapSpace) -> None:
        """Lays the space's counts out.

        Raises:
            ConfigError: the surrogate is not for this workload or machine.
        """
        reason = why_not(space.workload, space.accelerator, card.levels)
        if reason is not None:
            raise ConfigError(
                f"The surrogate for machines does not fit {space.workload.name} on "
                f"{space.accelerator.name}: {reason}."
            )
        self.card = card
        self.readout = Readout(space, network).eval().requires_grad_(False)
        self._minimum = algorithmic_minimum(space.workload, space.accelerator)
        drawn = space.encode(space.sample(np.random.default_rng(0), DRAWN, feasible=True))
        spread = drawn.astype(np.float64).std(axis=0)
        self.scale: npt.NDArray[np.float64] = np.where(spread > 0, spread, 1.0)

    def for_objective(self, objective: Objective) -> MachinePredictor:
        """The same networks as a predictor of another objective over its algorithmic minimum."""
        other = copy.copy(self)
        other.objective = objective
        return other

    @property
    def _least(self) -> float:
        """Logarithm of the objective's algorithmic minimum."""
        energy, latency = POWERS[self.objective]
        least = self._minimum
        return float(np.log(least.energy_pj**energy * least.latency_cycles**latency))

    def _log(self, described: torch.Tensor) -> torch.Tensor:
        """Logarithm of the objective of a description [B, G], [E, B]."""
        energy, cycles = self.readout.energy_and_cycles(described)
        of_energy, of_cycles = POWERS[self.objective]
        return of_energy * energy + of_cycles * cycles

    def value(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """`[B]` predicted ln EDP over the algorithmic minimum, of points `[B, F]`."""
        return self.value_and_spread(points)[0]

    def value_and_spread(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The same, with the standard deviation of each: 1.645 of them hold 90 % of truths."""
        self._check_points(points)
        values, spreads = np.empty(len(points)), np.empty(len(points))
        with torch.no_grad():
            for at in range(0, len(points), ROWS_AT_ONCE):
                rows = slice(at, at + ROWS_AT_ONCE)
                found = self._log(self.readout.describe(_tensor(points[rows]))).double()
                values[rows] = found.mean(0).numpy() - self._least
                spreads[rows] = found.std(0, unbiased=False).numpy()
        return values, np.hypot(self.card.spread * spreads, self.card.floor)

    def value_and_gradient(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Predicted ln EDP `[B]`, and the gradient `[B, F]` of the EDP over its minimum."""
        self._check_points(points)
        raw = _tensor(points).requires_grad_(True)
        log_edp = self._log(self.readout.describe(raw)).mean(0)
        (gradient,) = torch.autograd.grad(log_edp.sum(), raw)
        values = log_edp.detach().double().numpy() - self._least
        scaled = np.exp(np.minimum(values, LARGEST_LOG_EDP))[:, None] * gradient.double().numpy()
        return values, scaled

    def describe(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """`[B, G]` the logarithms that counts are made of, before any network is asked."""
        self._check_points(points)
        with torch.no_grad():
            described: npt.NDArray[np.float32] = self.readout.describe(_tensor(points)).numpy()
        return described

    def value_and_slope(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Predicted ln EDP `[B]`, the description, and ln EDP's gradient by it, `[B, G]` each."""
        self._check_points(points)
        with torch.no_grad():
            described = self.readout.describe(_tensor(points))
        seen = described.detach().requires_grad_(True)
        log_edp = self._log(seen).mean(0)
        (slopes,) = torch.autograd.grad(log_edp.sum(), seen)
        values = log_edp.detach().double().numpy() - self._least
        return values, described.numpy(), slopes.numpy()

    def _check_points(self, points: npt.NDArray[np.float32]) -> None:
        if points.ndim != 2 or points.shape[1] != len(self.scale):
            raise ContractError(
                f"Expected points of shape [B, {len(self.scale)}], got {points.shape}."
            )
        if not np.isfinite(points).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(points))[0])
            raise ContractError(f"Expected finite points, got {points[row, column]} in row {row}.")


def write(stem: Path, network: CountNetwork, card: MachineCard) -> Path:
    """Writes `stem.safetensors` and, with the checksum of that, `stem.json`; returns the latter."""
    weights = save({name: value.contiguous() for name, value in network.state_dict().items()})
    card = card.model_copy(update={"sha256": hashlib.sha256(weights).hexdigest()})
    write_atomically(stem.with_suffix(".safetensors"), weights)
    path = stem.with_suffix(".json")
    write_atomically(path, (card.model_dump_json(indent=2) + "\n").encode())
    return path


def read_card(path: Place) -> MachineCard:
    """What is said of a surrogate for machines.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        return validate(MachineCard, read_json(path), str(path))
    except (ConfigError, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=4)
def load_network(path: Path = SHIPPED) -> tuple[MachineCard, CountNetwork]:
    """The card and the network of a surrogate for machines.

    Raises:
        DataError: a file is missing or damaged, or of another version.
    """
    where = str(path)
    card = read_card(path)
    try:
        weights = read_bytes(path.with_suffix(".safetensors"), LARGEST_FILE)
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error}") from error
    if (card.format, card.members, card.width) != (FORMAT, MEMBERS, WIDTH):
        raise DataError(
            f"{where}: expected format {FORMAT} with {MEMBERS} members of width {WIDTH}, got "
            f"{card.format} with {card.members} of {card.width}."
        )
    if hashlib.sha256(weights).hexdigest() != card.sha256:
        raise DataError(f"{path.with_suffix('.safetensors')} is damaged: its checksum differs.")
    network = CountNetwork()
    try:
        network.load_state_dict(load(weights))
    except (RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise DataError(f"{path.with_suffix('.safetensors')} does not fit: {reason}") from error
    return card, network


def shipped_for(space: MapSpace) -> MachinePredictor:
    """The shipped surrogate for machines, for a space.

    Raises:
        ConfigError: it is not for this workload or machine; the message says why.
    """
    card, network = load_network()
    return MachinePredictor(card, network, space)


def _tensor(points: npt.NDArray[np.float32]) -> torch.Tensor:
    # A copy: searchers keep writing to their arrays.
    return torch.from_numpy(np.array(points, dtype=np.float32))
