"""`mapspace generate`: a surrogate's data set, shard by shard on Ray tasks, resumable."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from costmodel.machines.accelerators import accelerator
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, file_sizes
from mapspace.strict_yaml import FileName, Seed, Size, StrictModel, validate
from orchestrator.report.document import LEFT, Row, Table
from orchestrator.report.text_table import table_lines
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record
from orchestrator.runs.ray_runtime import code_version
from orchestrator.runs.run_folder import Execute, Experiment
from orchestrator.store.folder import Store
from orchestrator.store.made_files import keep_files, take_files
from surrogate.problems import ProblemRanges
from surrogate.shards import MANIFEST, DataConfig, Manifest, ShardEntry, check_shard, write_shard

# The manifest is written this often while shards arrive; a killed driver loses no more.
MANIFEST_SECONDS = 2.0
# Shards that are compared with their checksums at once; what is remote is mostly waited for.
CHECKS_AT_ONCE = 8


class GenerateConfig(StrictModel):
    """A data set: problems drawn from ranges, mappings uniform among the feasible ones."""

    kind: Literal["generate"]
    name: FileName
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
    """Feasible mappings of each problem; the paper does not state its number."""
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
    taken: int
    """Shards that the store had."""
    written: int
    """Shards that were drawn now."""
    damaged: tuple[str, ...]
    """Why shards of the manifest were drawn anew, one line each."""
    seconds: float
    size: int
    """Bytes of all shards."""


class GenerateExperiment(Experiment[GenerateConfig, Generated]):
    """A data set in its folder."""

    command = "generate"
    words = "a data set"
    unit = "shards"
    config = GenerateConfig
    file = MANIFEST
    needed = (MANIFEST,)
    quick: ClassVar = {
        "kind": "generate",
        "name": "quick",
        "problems": {"family": "mttkrp"},
        "rows": 60,
        "mappings_per_problem": 10,
        "problems_per_shard": 3,
    }
    other: ClassVar = {"seed": 1}

    @classmethod
    def prepare(cls, config: GenerateConfig, where: str) -> GenerateConfig:
        """Looks the accelerator up."""
        try:
            config.data()
        except ConfigError as error:
            raise ConfigError(f"{where}: accelerator: {error}") from error
        return config

    def identity(self) -> dict[str, Any]:
        """A manifest without shards."""
        return self._fresh().model_dump(mode="json")

    def other_run(self, there: Any) -> str:
        """A data set of another configuration; more rows are the same one."""
        mine = self._fresh()
        if there.config_hash == mine.config_hash:
            return ""
        differing = ", ".join(_differences(there.config, mine.config))
        return f"holds another data set (its configuration differs in {differing})"

    def begin(self, folder: Place) -> None:
        """Looks at the manifest that is there."""
        if (folder / MANIFEST).exists():
            self.refuse(folder, self.other_run(Manifest.read(folder)))

    def work(self, folder: Place, claim: Claim) -> Generated:
        """Makes the shards that are missing or damaged."""
        started = time.perf_counter()
        data, provenance = self.plan.data(), code_version()
        manifest = Manifest.read(folder) if (folder / MANIFEST).exists() else self._fresh()
        _remove_partial_files(folder)
        damaged = _damaged(folder, manifest)
        manifest = manifest.without_shards(damaged)
        manifest.write(folder)
        wanted = math.ceil(self.plan.rows / data.rows_per_shard)
        present = {shard.index for shard in manifest.shards}
        missing = [index for index in range(wanted) if index not in present]
        known = self._known(folder, manifest.config_hash, missing)
        manifest = manifest.with_shards(known)
        there = {shard.index for shard in known}
        missing = [index for index in missing if index not in there]
        self.taken += len(known)
        self.made += len(missing)
        task = functools.partial(_write, data, folder, json.dumps(provenance), self.store)
        saved = time.monotonic()
        try:
            done = wanted - len(missing)
            for entry in self.spread(claim, task, missing, total=wanted, done=done):
                manifest = manifest.with_shards([entry])
                if time.monotonic() - saved > MANIFEST_SECONDS:
                    manifest.write(folder)
                    saved = time.monotonic()
        finally:
            if not claim.lost:
                manifest.write(folder)
        _remove_partial_files(folder)
        sizes = file_sizes(folder)
        return Generated(
            manifest=manifest,
            kept=len(present),
            taken=len(known),
            written=len(missing),
            damaged=tuple(damaged.values()),
            seconds=time.perf_counter() - started,
            size=sum(sizes[shard.file] for shard in manifest.shards),
        )

    def _known(self, folder: Place, config_hash: str, missing: Sequence[int]) -> list[ShardEntry]:
        """Shards that the store has, which are in the folder then."""
        store = self.store
        if store is None or not missing:
            return []

        def taken(index: int) -> ShardEntry | None:
            made = take_files(store, _decides(config_hash, index), folder)
            if made is None:
                return None
            try:
                entry = validate(ShardEntry, made.said, f"{store.place}: a shard", DataError)
                check_shard(folder, entry)
            except DataError as error:
                store.tell(f"{error} It is drawn anew.")
                return None
            return entry if entry.index == index else None

        with ThreadPoolExecutor(CHECKS_AT_ONCE) as threads:
            found = [entry for entry in threads.map(taken, missing) if entry is not None]
        if found:
            self.say(f"{self.name}: {len(found):,} of {len(missing):,} shards are in the store")
        return found

    def text(self, result: Generated, folder: Path) -> str:
        """What there is, and what of it is new."""
        config, manifest = self.plan, result.manifest
        new_rows = result.written * config.mappings_per_problem * config.problems_per_shard
        rate = new_rows / result.seconds
        rows: list[Row] = [
            ("rows", f"{manifest.rows:,} of {config.problems.family} on {config.accelerator}"),
            ("shards", _counted(result)),
            ("size", f"{result.size / 1e6:,.1f} MB"),
            ("time", f"{result.seconds:.1f} s, {rate:,.0f} new rows per second"),
            *(("replaced", reason) for reason in result.damaged),
        ]
        table = Table("data", "", ("", ""), (LEFT, LEFT), rows)
        return "\n".join([f"Data set {config.name}", *table_lines(table)])

    def record(self, result: Generated, folder: Path) -> Record:
        """Its size."""
        manifest = result.manifest
        content = f"{manifest.config_hash} {len(manifest.shards)}"
        metrics = (("rows", manifest.rows, 0), ("size_bytes", result.size, 0))
        return Record(content, metrics, files=(folder / MANIFEST,))

    def _fresh(self) -> Manifest:
        return Manifest.new(self.plan.data(), code_version())


def generate(config: GenerateConfig, folder: Place, *, execute: Execute | None = None) -> Generated:
    """Makes the shards that are missing or damaged, as `Experiment.run` does."""
    return GenerateExperiment(config, execute=execute).run(folder)


def _remove_partial_files(folder: Place) -> None:
    """Removes what workers that were killed in the middle of a shard have left."""
    if isinstance(folder, Path):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def _write(
    data: DataConfig, folder: Place, provenance: str, store: Store | None, index: int
) -> ShardEntry:
    entry = write_shard(data, index, folder, provenance)
    if store is not None:
        said = entry.model_dump(mode="json")
        keep_files(store, _decides(data.hash, index), "a shard", [folder / entry.file], said)
    return entry


def _decides(config_hash: str, index: int) -> dict[str, Any]:
    """What decides a shard: the hash of its configuration has the model's version in it."""
    return {"kind": "shard", "config": config_hash, "index": index}


def _counted(result: Generated) -> str:
    taken = f", {result.taken} from the store" if result.taken else ""
    return f"{result.written} written, {result.kept} kept{taken}"


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
