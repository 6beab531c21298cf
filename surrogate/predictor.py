"""A trained surrogate for searchers: numpy in, ln EDP and gradients out.

A surrogate is two files with one stem: `x.safetensors` (weights and whitening) and `x.json` (what
it is bound to, where it comes from, what it reached). Letters: `B` points, `F` raw values.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save

from costmodel.costs import POWERS, Objective
from mapspace.bounded_reading import LARGEST_BINARY, LARGEST_FILE, read_bytes, read_json
from mapspace.errors import ConfigError, ContractError, DataError
from mapspace.storage import Place, make_folder, place, write_atomically
from mapspace.strict_yaml import PositiveNumber, Size, StrictModel, validate
from surrogate.applicability import Structure, tensors_of
from surrogate.metrics import Figures
from surrogate.network import NetworkConfig, SurrogateNetwork
from surrogate.samples import SMALLEST_COST

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload

FORMAT = 1
SHIPPED = Path(__file__).parent / "weights"
# The surrogate for every machine, of another kind: `surrogate.machine_surrogate`.
OF_MACHINES = "machines"
ROWS_AT_ONCE = 8192
MOST_COSTS = 1024
# e^60 is far above every normalised EDP; beyond it a prediction is an extrapolation gone wild,
# and its exponential must stay finite.
LARGEST_LOG_EDP = 60.0


class Card(StrictModel):
    """What the JSON beside the weights says."""

    format: int
    """Version of this layout."""
    network: NetworkConfig
    """Shape of the network."""
    structure: Structure
    """What an encoded point is; the accelerator."""
    costs: tuple[str, ...] = Field(min_length=2, max_length=MOST_COSTS)
    """Names of the targets, [O]."""
    ranges: dict[str, tuple[Size, Size]]
    """Least and greatest size of each dimension in training."""
    scale: tuple[PositiveNumber, ...]
    """Standard deviations of the raw values in training, [F]."""
    sha256: str
    """Of the weights."""
    figures: Figures
    """Reached on problems never trained on."""
    training: dict[str, Any]
    """Options, rows, views and seconds of the training run."""
    provenance: dict[str, str]
    """Cost model, data set, package version and commit."""

    @model_validator(mode="after")
    def _check(self) -> Card:
        if len(self.scale) != len(self.structure.features):
            raise ValueError(
                f"scale: expected {len(self.structure.features)} values, one per feature, got "
                f"{len(self.scale)}."
            )
        unknown = sorted(set(self.ranges) - set(self.structure.dimensions))
        if unknown:
            raise ValueError(f"ranges: {unknown[0]!r} is no dimension of the structure.")
        return self


class SurrogatePredictor:
    """Predicted ln EDP of encoded points, or of another objective, and its gradient.

    Bound to a workload family and an accelerator, not to a problem: the sizes are part of a
    point. Satisfies the `Predictor` protocol of `searchers.gradient`. Deterministic for a given
    number of torch threads, which the host sets.

    Attributes:
        card: What the surrogate is.
        network: The network, in evaluation mode, without parameter gradients.
        scale: [F] float64 standard deviations of the raw values in training, all > 0.
        objective: What it predicts; where the methods say EDP, read this.
    """

    def __init__(self, card: Card, network: SurrogateNetwork, objective: Objective = "edp") -> None:
        self.card = card
        self.network = network.eval().requires_grad_(False)
        self.scale = np.array(card.scale)
        self.objective = objective
        self._powers = torch.tensor(POWERS[objective], dtype=torch.float32)

    def for_objective(self, objective: Objective) -> SurrogatePredictor:
        """The same network as a predictor of another objective over its algorithmic minimum."""
        return SurrogatePredictor(self.card, self.network, objective)

    def value(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Predicted ln of EDP over the algorithmic minimum.

        Args:
            points: [B, F], finite.

        Returns:
            [B].

        Raises:
            ContractError: If the shape is wrong or a value is not finite.
        """
        self._check_points(points)
        values = np.empty(len(points))
        with torch.no_grad():
            for at in range(0, len(points), ROWS_AT_ONCE):
                predicted = self._log(self.network(_tensor(points[at : at + ROWS_AT_ONCE])))
                values[at : at + ROWS_AT_ONCE] = predicted.numpy()
        return values

    def value_and_gradient(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Predicted ln EDP, and the gradient of the predicted EDP itself.

        The gradient is that of EDP over the algorithmic minimum with respect to every raw value
        of the point, the problem's sizes included. Orders are discrete: their gradient is that of
        a soft comparison of ranks.

        Args:
            points: [B, F], finite.

        Returns:
            Values [B] and gradients [B, F].

        Raises:
            ContractError: If the shape is wrong or a value is not finite.
        """
        self._check_points(points)
        values, gradients = np.empty(len(points)), np.empty(points.shape)
        for at in range(0, len(points), ROWS_AT_ONCE):
            rows = slice(at, at + ROWS_AT_ONCE)
            raw = _tensor(points[rows]).requires_grad_(True)
            pair = self.network.energy_and_cycles(raw)
            if self.card.network.targets == "log":
                log_edp = (pair * self._powers).sum(1)
                (gradient,) = torch.autograd.grad(log_edp.sum(), raw)
                # d EDP = EDP d ln EDP, in double precision: EDP spans many orders of magnitude.
                log_edp = log_edp.detach().double()
                gradient = gradient * log_edp.clamp(max=LARGEST_LOG_EDP).exp().unsqueeze(1)
            else:
                (gradient,) = torch.autograd.grad((pair**self._powers).prod(1).sum(), raw)
                logs = pair.detach().double().clamp(min=SMALLEST_COST).log()
                log_edp = (logs * self._powers).sum(1)
            values[rows] = log_edp.numpy()
            gradients[rows] = gradient.numpy()
        return values, gradients

    def value_and_sum_gradient(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Predicted ln EDP, and the gradient of the sum of all whitened outputs.

        What the released Mind Mappings code descends on in place of EDP. One query: value and
        gradient come from one pass.

        Args:
            points: [B, F], finite.

        Returns:
            Values [B] and gradients [B, F].

        Raises:
            ContractError: If the shape is wrong or a value is not finite.
        """
        self._check_points(points)
        raw = _tensor(points).requires_grad_(True)
        outputs = self.network(raw)
        (gradient,) = torch.autograd.grad(outputs.sum(), raw)
        log_edp = self._log(outputs.detach())
        return log_edp.double().numpy(), gradient.double().numpy()

    def describe(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What the network's body sees of points: whitened features, no prediction.

        Args:
            points: [B, F], finite.

        Returns:
            [B, G].

        Raises:
            ContractError: If the shape is wrong or a value is not finite.
        """
        self._check_points(points)
        with torch.no_grad():
            described: npt.NDArray[np.float32] = self.network.describe(_tensor(points)).numpy()
        return described

    def value_and_slope(
        self, points: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Predicted ln EDP, what the body sees, and the gradient of ln EDP with respect to that.

        One query a point, as `value_and_gradient`: one pass forwards and one back.

        Args:
            points: [B, F], finite.

        Returns:
            Values [B], whitened features [B, G], gradients [B, G].

        Raises:
            ContractError: If the shape is wrong or a value is not finite.
        """
        self._check_points(points)
        with torch.no_grad():
            described = self.network.describe(_tensor(points))
        seen = described.detach().requires_grad_(True)
        log_edp = self._log(self.network.body(seen))
        (slopes,) = torch.autograd.grad(log_edp.sum(), seen)
        return log_edp.detach().double().numpy(), described.numpy(), slopes.numpy()

    def _log(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logarithm of the objective, [B], of whitened targets [B, O]."""
        return (self.network.log_costs_of(outputs) * self._powers).sum(1)

    def check(self, workload: Workload, accelerator: Accelerator) -> None:
        """Refuses what this surrogate was not trained for.

        Raises:
            ConfigError: If the accelerator or the workload's projections differ.
        """
        reason = self.mismatch(workload, accelerator)
        if reason is not None:
            raise ConfigError(f"The surrogate does not fit {workload.name}: {reason}.")

    def mismatch(self, workload: Workload, accelerator: Accelerator) -> str | None:
        """Why this surrogate cannot answer for a workload on an accelerator, or None."""
        return _mismatch(self.card, workload, accelerator)

    def _check_points(self, points: npt.NDArray[np.float32]) -> None:
        width = len(self.card.structure.features)
        if points.ndim != 2 or points.shape[1] != width:
            raise ContractError(f"Expected points of shape [B, {width}], got {points.shape}.")
        if not np.isfinite(points).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(points))[0])
            raise ContractError(f"Expected finite points, got {points[row, column]} in row {row}.")


def write(
    stem: Place,
    network: SurrogateNetwork,
    *,
    structure: Structure,
    costs: tuple[str, ...],
    ranges: dict[str, tuple[int, int]],
    scale: npt.NDArray[np.float64],
    reached: Figures,
    training: dict[str, Any],
    provenance: dict[str, str],
) -> Place:
    """Writes a surrogate as `stem.safetensors` and `stem.json`.

    Returns:
        The path of the JSON file, which `load` takes.
    """
    weights = save({name: value.contiguous() for name, value in network.state_dict().items()})
    card = Card(
        format=FORMAT,
        network=network.config,
        structure=structure,
        costs=costs,
        ranges=ranges,
        scale=tuple(scale.tolist()),
        sha256=hashlib.sha256(weights).hexdigest(),
        figures=reached,
        training=training,
        provenance=provenance,
    )
    make_folder(stem.parent)
    # The card names the checksum of its weights, so it comes last.
    write_atomically(stem.with_name(stem.name + ".safetensors"), weights)
    path = stem.with_name(stem.name + ".json")
    write_atomically(path, (card.model_dump_json(indent=1) + "\n").encode())
    return path


def read_card(path: Place) -> Card:
    """Reads the JSON of a surrogate.

    Raises:
        DataError: If it is missing or damaged.
    """
    if not path.exists():
        raise DataError(f"{path} is missing.")
    data = read_json(path, DataError)
    card = validate(Card, data, f"{path} is no surrogate", DataError)
    if card.format != FORMAT:
        raise DataError(f"{path} has format {card.format}; expected {FORMAT}.")
    return card


def load_surrogate(path: Place | str) -> SurrogatePredictor:
    """Loads a surrogate.

    Args:
        path: Its JSON or safetensors file, or the folder of a training run; a path or a URI.

    Raises:
        DataError: If a file is missing or damaged; the message names it.
    """
    path = place(path)
    if path.is_dir():
        path = path / "surrogate.json"
    path = path.with_suffix(".json")
    card = read_card(path)
    weights_path = path.with_suffix(".safetensors")
    try:
        most = min(LARGEST_BINARY, 4 * card.network.least_bytes + LARGEST_FILE)
        weights = read_bytes(weights_path, most)
    except OSError as error:
        raise DataError(f"{weights_path} cannot be read: {error.strerror}.") from error
    if hashlib.sha256(weights).hexdigest() != card.sha256:
        raise DataError(f"{weights_path} is damaged: its checksum differs from {path.name}'s.")
    if card.network.least_bytes > len(weights):
        raise DataError(f"{weights_path} does not fit {path}: it is too small for that network.")
    network = SurrogateNetwork(card.network, card.structure, len(card.costs))
    try:
        network.load_state_dict(load(weights))
    except (RuntimeError, SafetensorError) as error:
        # Of torch's list of all that differs, the first.
        *_, reason = str(error).strip().splitlines()[:2]
        raise DataError(f"{weights_path} does not fit {path}: {reason.strip()}") from error
    for name, value in network.state_dict().items():
        if not torch.isfinite(value).all():
            raise DataError(f"{weights_path} is damaged: {name}: expected finite numbers.")
        if name.endswith("_std") and not (value > 0).all():
            raise DataError(f"{weights_path} is damaged: {name}: expected numbers above 0.")
    return SurrogatePredictor(card, network)


def shipped(workload: Workload, accelerator: Accelerator) -> SurrogatePredictor:
    """The surrogate of this package that fits.

    Raises:
        ConfigError: If none does; the message says what there is.
    """
    reasons = []
    for path in sorted(SHIPPED.glob("*.json")):
        if path.stem == OF_MACHINES:
            continue
        card = read_card(path)
        reason = _mismatch(card, workload, accelerator)
        if reason is None:
            return load_surrogate(path)
        reasons.append(f"{path.stem}: {reason}")
    raise ConfigError(
        f"No shipped surrogate fits {workload.name} on {accelerator.name} "
        f"({'; '.join(reasons) or 'none is shipped'}). `mapspace train` makes one."
    )


def _mismatch(card: Card, workload: Workload, accelerator: Accelerator) -> str | None:
    structure = card.structure
    if accelerator.hash != structure.accelerator_hash:
        if structure.accelerator == accelerator.name:
            return f"it is for {accelerator.name} as it is shipped, which this one differs from"
        return f"it is for the accelerator {structure.accelerator}, not {accelerator.name}"
    if workload.dimension_names != structure.dimensions:
        return (
            f"it is for {structure.family} with dimensions {' '.join(structure.dimensions)}, not "
            f"{' '.join(workload.dimension_names)}"
        )
    for ours, theirs in zip(structure.tensors, tensors_of(workload), strict=False):
        if ours != theirs:
            return f"it is for {structure.family} with another projection of {theirs.name}"
    if len(structure.tensors) != len(workload.tensors):
        return f"it is for {len(structure.tensors)} tensors, not {len(workload.tensors)}"
    return None


def _tensor(points: npt.NDArray[np.float32]) -> torch.Tensor:
    # A copy: searchers keep writing to their arrays.
    return torch.from_numpy(np.array(points, dtype=np.float32))
