"""The data set on disk: Parquet shards and a manifest, checked whenever they are read.

A shard is a function of (data config, index) and appears whole or not at all. The folder may be a
local one or a URI (`mapspace.storage`). The manifest lists the shards with row counts, SHA-256
checksums and moments (for whitening). Letters: `R` rows, `F` raw values per point, `O` costs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationError

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from mapspace.bounded_reading import LARGEST_FILE, read_bytes
from mapspace.errors import ContractError, DataError
from mapspace.parquet_parts import Parts
from mapspace.storage import Place, place, write_atomically
from mapspace.strict_yaml import StrictModel
from surrogate.applicability import Structure
from surrogate.problems import ProblemRanges
from surrogate.samples import SMALLEST_COST, Samples, cost_names, draw

FORMAT = 1
MANIFEST = "manifest.json"
METADATA_KEY = b"mapspace"


class Moments(StrictModel):
    """Count, mean and summed squared deviation of columns; moments of parts merge exactly."""

    count: int
    """Rows."""
    mean: tuple[float, ...]
    """Per column."""
    squares: tuple[float, ...]
    """Per column, the sum of squared deviations from the mean."""

    @classmethod
    def of(cls, rows: npt.NDArray[Any]) -> Moments:
        """Moments of [R, columns]."""
        values = rows.astype(np.float64)
        mean = values.mean(axis=0)
        squares = ((values - mean) ** 2).sum(axis=0)
        return cls(count=len(rows), mean=tuple(mean.tolist()), squares=tuple(squares.tolist()))

    def merge(self, other: Moments) -> Moments:
        """Moments of both parts together (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        mean_a, mean_b = np.array(self.mean), np.array(other.mean)
        delta = mean_b - mean_a
        mean = mean_a + delta * (other.count / count)
        squares = np.array(self.squares) + np.array(other.squares)
        squares += delta**2 * (self.count * other.count / count)
        return Moments(count=count, mean=tuple(mean.tolist()), squares=tuple(squares.tolist()))

    @property
    def std(self) -> npt.NDArray[np.float64]:
        """Standard deviations, 1 for a column that does not vary."""
        std = np.sqrt(np.array(self.squares) / self.count)
        return np.where(std > 1e-6 * np.maximum(1.0, np.abs(self.mean)), std, 1.0)


class Statistics(StrictModel):
    """Moments of everything that a recipe may whiten by."""

    inputs: Moments
    """Encoded points, [F]."""
    costs: Moments
    """Normalised costs, [O]."""
    log_costs: Moments
    """Their natural logarithms, [O]."""

    @classmethod
    def of(cls, samples: Samples) -> Statistics:
        """Moments of one shard's rows."""
        return cls(
            inputs=Moments.of(samples.inputs),
            costs=Moments.of(samples.costs),
            log_costs=Moments.of(np.log(np.maximum(samples.costs, SMALLEST_COST))),
        )

    def merge(self, other: Statistics) -> Statistics:
        """Moments of both parts together."""
        return Statistics(
            inputs=self.inputs.merge(other.inputs),
            costs=self.costs.merge(other.costs),
            log_costs=self.log_costs.merge(other.log_costs),
        )


class DataConfig(StrictModel):
    """Everything that decides the content of a shard."""

    problems: ProblemRanges
    """What problems to draw."""
    accelerator: Accelerator
    """What they run on."""
    mappings_per_problem: int
    """Feasible mappings of each."""
    problems_per_shard: int
    """Problems in one file."""
    seed: int
    """With a shard's index, the only source of randomness."""

    @property
    def rows_per_shard(self) -> int:
        """Rows in one file."""
        return self.mappings_per_problem * self.problems_per_shard

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits: equal for configs whose shards are equal."""
        content = self.model_dump(mode="json", exclude={"accelerator"})
        content["accelerator"] = self.accelerator.hash
        content["model"] = [LoopNestModel.name, LoopNestModel.version, FORMAT]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def example_space(self) -> MapSpace:
        """The map space of one problem of this family, for names and structure."""
        return MapSpace(self.problems.draw(np.random.default_rng(0)), self.accelerator)


class ShardEntry(StrictModel):
    """One shard in the manifest."""

    index: Annotated[int, Field(ge=0)]
    """Its index; with the config it decides the content."""
    # No separators: a manifest cannot lead out of its folder.
    file: Annotated[str, Field(pattern=r"^shard-\d{5,}\.parquet$")]
    """File name within the folder."""
    rows: Annotated[int, Field(gt=0)]
    """Rows."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of the file."""
    statistics: Statistics
    """Moments of its rows."""


class Manifest(StrictModel):
    """What a data set folder holds."""

    format: int
    """Version of this layout."""
    config_hash: str
    """`DataConfig.hash` of the shards."""
    config: DataConfig
    """What decided the shards."""
    structure: Structure
    """What an encoded point is, and the columns of inputs."""
    costs: tuple[str, ...]
    """The columns of normalised costs, [O]."""
    provenance: dict[str, str]
    """Cost model, package version and commit."""
    shards: tuple[ShardEntry, ...] = ()
    """Shards that are written, by index."""

    @classmethod
    def new(cls, config: DataConfig, provenance: Mapping[str, str]) -> Manifest:
        """A manifest without shards."""
        space = config.example_space()
        return cls(
            format=FORMAT,
            config_hash=config.hash,
            config=config,
            structure=Structure.of(space),
            costs=cost_names(space),
            provenance={
                "model": LoopNestModel.name,
                "model_version": LoopNestModel.version,
                **provenance,
            },
        )

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def statistics(self) -> Statistics:
        """Moments of all rows."""
        total = self.shards[0].statistics
        for shard in self.shards[1:]:
            total = total.merge(shard.statistics)
        return total

    def with_shards(self, entries: Iterable[ShardEntry]) -> Manifest:
        """This manifest with entries added or replaced."""
        shards = {shard.index: shard for shard in (*self.shards, *entries)}
        ordered = tuple(shards[index] for index in sorted(shards))
        return self.model_copy(update={"shards": ordered})

    def without_shards(self, indices: Iterable[int]) -> Manifest:
        """This manifest with entries taken out."""
        gone = set(indices)
        kept = tuple(shard for shard in self.shards if shard.index not in gone)
        return self.model_copy(update={"shards": kept})

    def write(self, folder: Place) -> None:
        """Writes `manifest.json` atomically."""
        write_atomically(folder / MANIFEST, self.model_dump_json(indent=1).encode())

    @classmethod
    def read(cls, folder: Place) -> Manifest:
        """Reads `manifest.json`.

        Raises:
            DataError: If it is missing or damaged.
        """
        path = folder / MANIFEST
        try:
            manifest = cls.model_validate_json(read_bytes(path, LARGEST_FILE))
        except FileNotFoundError:
            raise DataError(f"{folder} holds no data set: {MANIFEST} is missing.") from None
        except (OSError, ValidationError) as error:
            raise DataError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
        if manifest.format != FORMAT:
            raise DataError(f"{path} has format {manifest.format}; expected {FORMAT}.")
        return manifest


def write_shard(config: DataConfig, index: int, folder: Place, provenance: str) -> ShardEntry:
    """Draws shard `index` and writes it, a function of (config, index) only.

    Args:
        config: What decides the content.
        index: Which shard.
        folder: Where it is written.
        provenance: JSON for the file's schema metadata.

    Returns:
        Its entry for the manifest.
    """
    rng = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(index,)))
    samples = draw(
        config.problems,
        config.accelerator,
        rng,
        problems=config.problems_per_shard,
        mappings_per_problem=config.mappings_per_problem,
    )
    space = config.example_space()
    names = (*space.feature_names, *cost_names(space))
    if len(set(names)) != len(names):
        raise ContractError(f"Columns of inputs and costs share a name: {', '.join(names)}.")
    columns = [np.ascontiguousarray(c) for c in (*samples.inputs.T, *samples.costs.T)]
    table = pa.table(dict(zip(names, columns, strict=True)))
    described = {
        "family": config.problems.family,
        "accelerator": config.accelerator.name,
        "accelerator_hash": config.accelerator.hash,
        "config_hash": config.hash,
        "seed": config.seed,
        "index": index,
        **json.loads(provenance),
    }
    table = table.replace_schema_metadata({METADATA_KEY: json.dumps(described)})
    # In memory first: it is a few MB, and object storage takes a file whole.
    content = pa.BufferOutputStream()
    pq.write_table(
        table,
        content,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        use_byte_stream_split=True,
        write_statistics=False,
    )
    whole = content.getvalue()
    path = folder / f"shard-{index:05d}.parquet"
    write_atomically(path, whole)
    return ShardEntry(
        index=index,
        file=path.name,
        rows=table.num_rows,
        sha256=hashlib.sha256(whole).hexdigest(),
        statistics=Statistics.of(samples),
    )


class Dataset:
    """A data set folder, opened for reading.

    Every file's checksum is compared once, before its first row is used.
    """

    def __init__(self, folder: Place | str) -> None:
        """Opens the folder, a path or a URI.

        Raises:
            DataError: If the manifest is missing, damaged or lists no shard.
        """
        self.folder = place(folder)
        self.manifest = Manifest.read(self.folder)
        if not self.manifest.shards:
            raise DataError(f"{self.folder / MANIFEST} lists no shard: run `mapspace generate`.")
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return len(self.manifest.shards)

    def read(self, position: int) -> Samples:
        """The rows of the shard at a position of the manifest.

        Raises:
            DataError: If the file is missing or damaged; the message names it.
        """
        names = (*self.manifest.structure.features, *self.manifest.costs)
        rows = self._columns(position, names)
        inputs = len(self.manifest.structure.features)
        return Samples(
            np.ascontiguousarray(rows[:, :inputs]), np.ascontiguousarray(rows[:, inputs:])
        )

    def problems(self, position: int) -> npt.NDArray[np.float32]:
        """Only the problem sizes of each row, [R, n]."""
        return self._columns(
            position, self.manifest.structure.features[: len(self.manifest.structure.dimensions)]
        )

    def _columns(self, position: int, names: tuple[str, ...]) -> npt.NDArray[np.float32]:
        entry = self.manifest.shards[position]
        content = _content(self.folder, entry, check=position not in self._checked)
        self._checked.add(position)
        try:
            table = Parts(pa.BufferReader(content)).read(names)
            columns = [table.column(name).to_numpy() for name in names]
        except (OSError, KeyError, ValueError) as error:
            raise _damaged(self.folder / entry.file, str(error).splitlines()[0]) from error
        return np.stack(columns, axis=1, dtype=np.float32)


def check_shard(folder: Place, entry: ShardEntry) -> None:
    """Compares a shard's checksum with the manifest.

    Raises:
        DataError: If the file is missing or differs; the message names it.
    """
    _content(folder, entry, check=True)


def _content(folder: Place, entry: ShardEntry, *, check: bool) -> bytes:
    """A shard's file, compared with the manifest's checksum if wanted."""
    path = folder / entry.file
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        raise _damaged(path, "the file is missing") from None
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    if check and hashlib.sha256(content).hexdigest() != entry.sha256:
        raise _damaged(path, "its checksum differs from the manifest's")
    return content


def _damaged(path: Place, reason: str) -> DataError:
    return DataError(f"{path} is damaged ({reason}): `mapspace generate` writes it anew.")
