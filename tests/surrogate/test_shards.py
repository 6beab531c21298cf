"""Shards: functions of (config, index), exact contents, and no damage that goes unnoticed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_results import make_results

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workload_families import cnn, mttkrp
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import validate
from orchestrator.comparison.results_files import save
from surrogate.problems import ProblemRanges
from surrogate.samples import cost_names, draw
from surrogate.shards import MANIFEST, DataConfig, Dataset, Manifest, Moments, write_shard

BUILDERS = {"cnn": cnn, "mttkrp": mttkrp}


def config_for(family: str = "cnn", *, seed: int = 0, machine: str = "mm256") -> DataConfig:
    return DataConfig(
        problems=ProblemRanges(family=family),
        accelerator=accelerator(machine),
        mappings_per_problem=20,
        problems_per_shard=3,
        seed=seed,
    )


@pytest.fixture
def folder(small_data: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(small_data, tmp_path / "copy"))


def test_a_shard_is_a_function_of_seed_and_index(tmp_path: Path) -> None:
    written = {}
    for label, seed, index in (("a", 0, 1), ("b", 0, 1), ("other-index", 0, 2), ("seed", 1, 1)):
        place = tmp_path / label
        place.mkdir()
        # A shard that was written before must not influence the next one.
        write_shard(config_for(seed=seed), 0, place, "{}")
        written[label] = write_shard(config_for(seed=seed), index, place, "{}")
    assert written["a"] == written["b"]
    digests = {entry.sha256 for entry in written.values()}
    assert len(digests) == 3


@pytest.mark.parametrize("family", ["cnn", "mttkrp"])
@pytest.mark.parametrize("machine", ["mm256", "mindmappings", "mm256-bypass", "eyeriss"])
def test_rows_are_mappings_and_their_normalised_costs(family: str, machine: str) -> None:
    """Points are invertible, so every row's costs can be computed again from the row itself."""
    config = config_for(family, machine=machine)
    rng = np.random.default_rng(5)
    samples = draw(config.problems, config.accelerator, rng, problems=2, mappings_per_problem=15)
    names = cost_names(config.example_space())
    assert len(names) == samples.costs.shape[1]
    levels, tensors = len(config.accelerator.levels), {"cnn": 3, "mttkrp": 4}[family]
    assert len(names) == levels * tensors + 3
    dimensions = config.example_space().workload.dimension_names
    for problem in range(2):
        rows = slice(15 * problem, 15 * problem + 15)
        points = samples.inputs[rows]
        sizes = {name: int(points[0, d]) for d, name in enumerate(dimensions)}
        workload = BUILDERS[family](**sizes)
        space = MapSpace(workload, config.accelerator)
        codes = space.project(points)
        np.testing.assert_array_equal(space.encode(codes), points)
        found = LoopNestModel().evaluate(space, codes, detail=True)
        least = algorithmic_minimum(workload, config.accelerator)
        costs = dict(zip(names, samples.costs[rows].T, strict=True))
        np.testing.assert_allclose(costs["energy"], found.energy_pj / least.energy_pj, rtol=1e-6)
        np.testing.assert_allclose(
            costs["cycles"], found.latency_cycles / least.latency_cycles, rtol=1e-6
        )
        assert found.detail is not None
        np.testing.assert_allclose(costs["utilisation"], found.detail.utilisation, rtol=1e-6)
        # The parts make the whole: each tensor and level times its own minimum, and the MACs.
        total = np.full(15, found.detail.mac_energy_pj)
        for level, memory in enumerate(config.accelerator.levels):
            for t, tensor in enumerate(workload.tensor_names):
                part = costs[f"energy.{memory.name}.{tensor}"]
                total += part * least.level_energy_pj[level, t]
        np.testing.assert_allclose(total, found.energy_pj, rtol=1e-5)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    config = config_for(seed=7)
    entry = write_shard(config, 4, tmp_path, json.dumps({"commit": "abc"}))
    file = pq.ParquetFile(tmp_path / entry.file)
    described = json.loads(file.schema_arrow.metadata[b"mapspace"])
    assert described["seed"] == 7
    assert described["index"] == 4
    assert described["commit"] == "abc"
    assert described["accelerator_hash"] == accelerator("mm256").hash
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert "BYTE_STREAM_SPLIT" in column.encodings
    assert [path.name for path in tmp_path.iterdir()] == [entry.file]


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_moments_of_parts_merge_to_those_of_the_whole(a: int, b: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(5, 3, (a + b, 4)) * [1, 1e3, 1e-3, 0]
    merged = Moments.of(rows[:a]).merge(Moments.of(rows[a:]))
    assert merged.count == a + b
    np.testing.assert_allclose(merged.mean, rows.mean(axis=0), rtol=1e-9, atol=1e-12)
    expected = rows.std(axis=0)
    expected[3] = 1.0
    if a + b > 1:
        np.testing.assert_allclose(merged.std, expected, rtol=1e-6)


def test_statistics_of_the_manifest_are_those_of_the_rows(small_data: Path) -> None:
    dataset = Dataset(small_data)
    parts = [dataset.read(position) for position in range(len(dataset))]
    inputs = np.concatenate([part.inputs for part in parts]).astype(float)
    costs = np.concatenate([part.costs for part in parts]).astype(float)
    statistics = dataset.manifest.statistics
    assert statistics.inputs.count == dataset.manifest.rows == 4000
    np.testing.assert_allclose(statistics.inputs.mean, inputs.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(statistics.costs.std, costs.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(statistics.log_costs.mean, np.log(costs).mean(axis=0), rtol=1e-4)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["bit", "truncated", "empty", "missing"],
)
def test_a_damaged_shard_is_named(folder: Path, damage: object) -> None:
    assert callable(damage)
    damage(folder / "shard-00002.parquet")
    dataset = Dataset(folder)
    dataset.read(1)
    with pytest.raises(DataError, match=r"shard-00002\.parquet is damaged"):
        dataset.read(2)


READERS = {
    "shards": "from surrogate.shards import Dataset; read = lambda: Dataset(folder).read(0)",
    "results": "from orchestrator.comparison.results_files import load\n"
    "read = lambda: load(folder)",
}


@pytest.mark.parametrize("what", READERS)
def test_reading_leaves_no_thread_that_could_outlive_python(
    what: str, folder: Path, tmp_path: Path
) -> None:
    """Such a thread aborted a process at its end, after all its output: exit code -6."""
    if what == "results":
        folder = tmp_path / "results"
        folder.mkdir()
        save(make_results(), folder)
    code = (
        "import os, sys, pyarrow.dataset, pyarrow.parquet; from pathlib import Path\n"
        f"folder = Path(sys.argv[1]); {READERS[what]}\n"
        "def threads(): return set(os.listdir('/proc/self/task'))\n"
        "before = threads(); read(); print(len(threads() - before))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "0\n"


@pytest.mark.parametrize(
    "file", ["../shard-00000.parquet", "/etc/passwd", "a/shard-00000.parquet", "shard-0.csv"]
)
def test_a_manifest_cannot_lead_out_of_its_folder(folder: Path, file: str) -> None:
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    content["shards"][0]["file"] = file
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        Dataset(folder)


def test_a_damaged_or_missing_manifest_is_named(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text()[:-50])
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        Manifest.read(folder)
    path.unlink()
    with pytest.raises(DataError, match="holds no data set"):
        Dataset(folder)


def test_ranges_are_the_papers_unless_given() -> None:
    ranges = ProblemRanges(family="cnn")
    rng = np.random.default_rng(0)
    drawn = [ranges.draw(rng).dimensions for _ in range(2000)]
    assert {sizes["N"] for sizes in drawn} == {1, 2, 4, 8, 16}
    assert {sizes["C"] for sizes in drawn} == {3, *range(32, 481, 32)}
    assert {sizes["K"] for sizes in drawn} == {*range(32, 481, 32)}
    assert {sizes["R"] for sizes in drawn} == {1, 3, 5, 7}
    assert all(sizes["R"] == sizes["S"] and sizes["P"] == sizes["Q"] for sizes in drawn)
    assert min(sizes["P"] for sizes in drawn) == 7
    assert max(sizes["P"] for sizes in drawn) == 223
    assert ranges.bounds()["S"] == (1, 7)
    assert ProblemRanges(family="mttkrp").bounds() == dict.fromkeys("IJKL", (128, 3968))
    own = ProblemRanges.model_validate({"family": "cnn", "sizes": {"Q": [5], "N": [3]}})
    sizes = own.draw(rng).dimensions
    assert (sizes["N"], sizes["Q"]) == (3, 5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"family": "cnn", "sizes": {"X": [1]}}, "unknown dimension 'X'"),
        ({"family": "gemm"}, "missing M, N, K"),
        ({"family": "cnn", "sizes": {"N": []}}, "sizes.N"),
        ({"family": "cnn", "sizes": {"N": [0]}}, "at least 1"),
        ({"family": "cnn", "sizes": {"N": {"first": 5, "last": 4}}}, "at least first"),
        ({"family": "cnn", "equal": {"Q": "S"}}, r"equal\.Q"),
        ({"family": "rnn"}, "family"),
    ],
)
def test_wrong_ranges_are_refused(data: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(ProblemRanges, data, "ranges")


def test_problems_without_feasible_mappings_are_given_up() -> None:
    machine = accelerator("mm256").model_dump()
    machine["name"] = "tiny"
    for level in machine["levels"][1:]:
        level["capacity_words"] = 1
    with pytest.raises(ConfigError, match="hardly any feasible mapping on tiny"):
        draw(
            ProblemRanges(family="gemm", sizes={"M": (7,), "N": (7,), "K": (7,)}),
            accelerator(machine),
            np.random.default_rng(0),
            problems=1,
            mappings_per_problem=1,
        )
