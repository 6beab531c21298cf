"""`mapspace generate`: a surrogate's data set, shard by shard on Ray tasks, resumable."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from costmodel.accelerator import accelerator
from costmodel.errors import ConfigError, DataError
from costmodel.loading import Size, StrictModel, load_yaml, validate
from orchestrator.lock import claimed
from orchestrator.places import RUNS
from orchestrator.runtime import code_version, fan_out, ray_runtime
from surrogate.problems import ProblemRanges
from surrogate.shards import MANIFEST, DataConfig, Manifest, ShardEntry, check_shard, write_shard
from surrogate.storage import Place, file_sizes, place

# The manifest is written this often while shards arrive; a killed driver loses no more.
MANIFEST_SECONDS = 2.0
# Shards that are compared with their checksums at once; what is remote is mostly waited for.
CHECKS_AT_ONCE = 8

# A name becomes a folder below `runs`, so it must not lead out of it.
FolderName = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seed = Annotated[int, Field(strict=True, ge=0)]
Execute = Callable[[Callable[[int], ShardEntry], Sequence[int]], Iterator[ShardEntry]]


class GenerateConfig(StrictModel):
    """A data set: problems drawn from ranges, mappings uniform among the feasible ones."""

    kind: Literal["generate"]
    name: FolderName
    """Names the folder, runs/NAME."""
    description: str = ""
    """What the data set is for."""
    problems: ProblemRanges
    """What problems to draw."""
    accelerator: str = "mm256"
    """A preset's name or a YAML file."""
    rows: Size = 1_000_000
    """Samples, rounded up to whole shards. More rows later extend the same folder."""
    mappings_per_problem: Size = 500
    """Feasible mappings of each problem, as in the paper."""
    problems_per_shard: Size = 100
    """Problems in one file."""
    seed: Seed = 0
    """With a shard's index, it decides the shard's content."""

    def data(self) -> DataConfig:
        """What decides the content of a shard.

        Raises:
            ConfigError: If there is no such accelerator.
        """
        return DataConfig(
            problems=self.problems,
            accelerator=accelerator(self.accelerator),
            mappings_per_problem=self.mappings_per_problem,
            problems_per_shard=self.problems_per_shard,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Generated:
    """What one call of `generate` did."""

    manifest: Manifest
    kept: int
    """Shards that were there and whole."""
    written: int
    """Shards that were drawn now."""
    damaged: tuple[str, ...]
    """Why shards of the manifest were drawn anew, one line each."""
    seconds: float


def run_generate(
    source: GenerateConfig | Path | str,
    output: Place | str | None = None,
    *,
    address: str | None = None,
) -> Place:
    """Makes a data set, or completes one, and prints a summary on standard error.

    Args:
        source: The configuration or its YAML file.
        output: The folder, a path or a URI; None: runs/NAME.
        address: Ray cluster; its nodes must share the folder, or have the URI's credentials.

    Returns:
        The folder.

    Raises:
        ConfigError: If the configuration is wrong, the folder holds another data set, or another
            run writes to it.
    """
    config = source if isinstance(source, GenerateConfig) else load_generate(source)
    folder = place(output or RUNS / config.name)
    console = Console(stderr=True)

    def on_ray(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        if indices:
            with ray_runtime(address):
                yield from fan_out(function, indices)

    generated = generate(config, folder, execute=on_ray, console=console)
    console.print(_summary(config, folder, generated))
    return folder


def load_generate(path: Path | str) -> GenerateConfig:
    """Reads a YAML file of kind generate.

    Raises:
        ConfigError: If it is none; one line names the key.
    """
    data = load_yaml(path)
    if data.get("kind") != "generate":
        raise ConfigError(f"{path}: kind: expected generate, got {data.get('kind')!r}.")
    return validate(GenerateConfig, data, str(path))


def generate(
    config: GenerateConfig,
    folder: Place,
    *,
    execute: Execute,
    console: Console | None = None,
) -> Generated:
    """Makes the shards that are missing or damaged.

    Args:
        config: What to make.
        folder: Where, a path or a URI; created if need be.
        execute: Applies a function to shard indices, in any order: `fan_out` on Ray, `map` here.
        console: Where progress is shown.

    Raises:
        ConfigError: If the folder holds a data set of another configuration, or another run
            writes to it.
    """
    started = time.perf_counter()
    data = config.data()
    provenance = code_version()
    with claimed(folder.resolve()) as claim:
        manifest, damaged = _begin(folder.resolve(), Manifest.new(data, provenance))
        wanted = math.ceil(config.rows / data.rows_per_shard)
        present = {shard.index for shard in manifest.shards}
        missing = [index for index in range(wanted) if index not in present]
        task = functools.partial(_write, data, folder.resolve(), json.dumps(provenance))
        bar = _progress_bar(console)
        with bar:
            row = bar.add_task(config.name, total=wanted, completed=wanted - len(missing))
            saved = time.monotonic()
            try:
                for entry in execute(task, missing):
                    manifest = manifest.with_shards([entry])
                    bar.advance(row)
                    claim.check()
                    if time.monotonic() - saved > MANIFEST_SECONDS:
                        manifest.write(folder)
                        saved = time.monotonic()
            finally:
                if not claim.lost:
                    manifest.write(folder)
        _remove_partial_files(folder.resolve())
    return Generated(
        manifest=manifest,
        kept=len(present),
        written=len(missing),
        damaged=tuple(damaged.values()),
        seconds=time.perf_counter() - started,
    )


def _begin(folder: Place, fresh: Manifest) -> tuple[Manifest, dict[int, str]]:
    """The manifest of what is there and whole, and why the rest is not, by index.

    Raises:
        ConfigError: If the folder holds a data set of another configuration.
    """
    manifest = Manifest.read(folder) if (folder / MANIFEST).exists() else fresh
    if manifest.config_hash != fresh.config_hash:
        raise ConfigError(
            f"{folder} holds another data set (its configuration differs in "
            f"{', '.join(_differences(manifest.config, fresh.config))}): give another --output or "
            "name."
        )
    _remove_partial_files(folder)
    damaged = _damaged(folder, manifest)
    manifest = manifest.without_shards(damaged)
    manifest.write(folder)
    return manifest, damaged


def _remove_partial_files(folder: Place) -> None:
    """Removes what workers that were killed in the middle of a shard have left."""
    if isinstance(folder, Path):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def _progress_bar(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("shards"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True, quiet=True),
    )


def _write(data: DataConfig, folder: Place, provenance: str, index: int) -> ShardEntry:
    return write_shard(data, index, folder, provenance)


def _damaged(folder: Place, manifest: Manifest) -> dict[int, str]:
    """Why shards of a manifest cannot be used, by index."""

    def reason(shard: ShardEntry) -> str | None:
        try:
            check_shard(folder, shard)
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(CHECKS_AT_ONCE) as threads:
        reasons = threads.map(reason, manifest.shards)
        return {
            shard.index: why
            for shard, why in zip(manifest.shards, reasons, strict=True)
            if why is not None
        }


def _differences(there: DataConfig, here: DataConfig) -> list[str]:
    """Names of the settings in which two configurations differ."""
    names = DataConfig.model_fields
    differing = [name for name in names if getattr(there, name) != getattr(here, name)]
    return differing or ["the version of the cost model"]


def _summary(config: GenerateConfig, folder: Place, generated: Generated) -> Table:
    manifest = generated.manifest
    sizes = file_sizes(folder)
    size = sum(sizes[shard.file] for shard in manifest.shards)
    new_rows = generated.written * config.mappings_per_problem * config.problems_per_shard
    table = Table(title=f"Data set {config.name}", show_header=False, title_justify="left")
    table.add_row("folder", str(folder))
    table.add_row("rows", f"{manifest.rows:,} of {config.problems.family} on {config.accelerator}")
    table.add_row("shards", f"{generated.written} written, {generated.kept} kept")
    table.add_row("size", f"{size / 1e6:,.1f} MB")
    table.add_row(
        "time",
        f"{generated.seconds:.1f} s, {new_rows / generated.seconds:,.0f} new rows per second",
    )
    for reason in generated.damaged:
        table.add_row("replaced", reason)
    return table
