"""Every door takes damaged input: an answer or a line, never a traceback, a hang or a crash.

A door is whatever reads what somebody else wrote. The default run gives each some inputs, the slow
one thousands; `-s` shows how many were answered and refused. Certificates have tests of their own.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fuzzing import NASTY, damaged, damaged_bytes, damaged_text, fuzz
from paths import EXPERIMENTS, GOLDEN
from sample_results import make_results

import costmodel
import searchers
import surrogate
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.nest_c import c_text
from costmodel.loop_nest.nest_loops import nest_of
from costmodel.loop_nest.nest_texts import map_text, pseudo_text
from costmodel.loop_nest.record_forms import as_nest, whole_records
from costmodel.loop_nest.records import mapping_record, score
from costmodel.maestro import MaestroModel, score_records
from costmodel.networks.network import load_network
from costmodel.timeloop.exporting import to_timeloop
from mapspace.bounded_reading import json_lines, parse_json
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml
from mapspace.testing.toy_space import ToyPredictor
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.comparison import results_files as results_module
from orchestrator.comparison.page import benchmark_document, text_table
from orchestrator.comparison.results_files import save
from orchestrator.runs import mlflow_client
from orchestrator.runs.checkpoints import load_state, save_state
from orchestrator.runs.experiments import load_experiment
from orchestrator.runs.lock import _refusal
from orchestrator.search.problem_lines import read_problems
from orchestrator.sweep.config import Sweep
from orchestrator.training.generate import GenerateConfig
from surrogate import options
from surrogate.predictor import SHIPPED

# Inputs per door: in the default run, and in the slow one.
FEW, MANY = 40, 1200
LEARNED = ("gradient", "surrogate-guided")
Inputs = Iterator[Any]
Door = Callable[[Path, int], tuple[Callable[[Any], object], Inputs]]


def records(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Lines of `evaluate` and `export`: three families, banks, bandwidth, bypass, a short one."""
    model = LoopNestModel()

    def inputs() -> Inputs:
        for index, (problem, machine) in enumerate(
            (
                ("gemm:M=4,N=6,K=8", "mm256"),
                ("resnet-conv4", "mm256-bw-bypass"),
                ("mttkrp:I=4,J=4,K=4,L=6", "mindmappings"),
                ("conv1d:P=12,R=3,K=4,C=2", "mm256-bypass"),
            )
        ):
            space = MapSpace(workload(problem), accelerator(machine))
            code = space.sample(np.random.default_rng(index), 1, feasible=True)[0]
            yield from damaged(mapping_record(space, code), count=count, seed=index)
        short = {"level": "L1", "temporal": [["M", 4], ["K", 8]], "spatial": []}
        short_record = {
            "version": 1,
            "workload": "gemm:M=4,N=6,K=8",
            "accelerator": {"extends": "mm256"},
            "mapping": [{"level": "L2", "spatial": [["N", 6]]}, short],
        }
        yield from damaged(short_record, count=count, seed=9)

    def call(record: Any) -> None:
        found = parse_json(json.dumps(record), "x")
        score(whole_records([found]), model)
        for written in (map_text, pseudo_text, c_text):
            written(nest_of(as_nest(found)))
        to_timeloop(found)

    return call, inputs()


def nest_records(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Lines of `evaluate` that say all of a nest, and the same as problems to search."""
    model = LoopNestModel()
    found = [record for file in NESTS for _, record in islice(json_lines(file), 0, None, 97)]
    problems = folder / "x.jsonl"

    def nest(record: Any) -> None:
        score([parse_json(json.dumps(record), "x")], model)

    def problem(line: Any) -> None:
        problems.write_text(json.dumps(line))
        for one in read_problems(problems):
            MapSpace(one.workload, one.machine)

    def inputs() -> Inputs:
        for index, record in enumerate(found):
            with suppress(ConfigError):
                nest(record)  # compiles, which is no hang
            for value in damaged(record, count=-(-count // len(found)), seed=50 + index):
                yield nest, value
        constrained = next(line for _, line in json_lines(CONSTRAINTS))
        line = {key: constrained[key] for key in ("arch", "problem", "constraints")}
        for value in damaged(line, count=count // 4, seed=49):
            yield problem, value

    return lambda case: case[0](case[1]), inputs()


def machines(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Files of machines of any hierarchy, up to the costs of a few mappings."""
    path, model = folder / "x.yaml", LoopNestModel()
    names = ("eyeriss", "tpu-v1", "cluster4x64db", "exotic24")

    def inputs() -> Inputs:
        for seed, name in enumerate(names, 80):
            content = yaml.safe_load((PRESETS / f"accelerator-{name}.yaml").read_text())
            yield from damaged(content, count=count // len(names), seed=seed)

    def call(content: Any) -> None:
        path.write_text(yaml.safe_dump(content))
        space = MapSpace(workload("gemm:M=4,N=6,K=8"), accelerator(str(path)))
        model.evaluate(space, space.sample(np.random.default_rng(0), 4, feasible=False))

    return call, inputs()


def cluster_records(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Lines of `evaluate --model maestro`."""
    model = MaestroModel()
    record = {
        "maestro_type": "CONV",
        "l3_tile": {"K": 8, "C": 8, "R": 3, "S": 3, "P": 8, "Q": 8},
        "stride": 1,
        "platform": {"noc_bw": 12, "num_pes": 64, "l1": 512, "l2": 4096},
        "style": "generic",
        "order": ["K", "C", "Q", "P"],
        "t1": {"K": 1, "C": 1, "P": 1, "Q": 1},
        "par": [["K", 4], ["C", 2]],
        "hop_latency": 1,
    }
    return lambda found: score_records([found], model), damaged(record, count=count, seed=1)


def record_lines(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Files of JSON lines, damaged as bytes, plain and compressed."""
    lines = b'{"a": [1, 2.5, "x"]}\n\n{"b": {"c": null}}\n' * 20
    path = {"plain": folder / "x.jsonl", "packed": folder / "x.jsonl.gz"}

    def inputs() -> Inputs:
        for content in damaged_bytes(lines, count=count // 2, seed=2):
            yield path["plain"], content
        for content in damaged_bytes(gzip.compress(lines), count=count // 2, seed=3):
            yield path["packed"], content

    def call(value: tuple[Path, bytes]) -> None:
        value[0].write_bytes(value[1])
        list(json_lines(value[0]))

    return call, inputs()


def summaries(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """`summary.json` of a run folder, as a report reads it."""
    save(make_results(), folder)
    path = folder / results_module.SUMMARY_FILE
    summary = json.loads(path.read_text())

    def call(value: Any) -> None:
        path.write_text(json.dumps(value))
        found = results_module.load(folder)
        text_table(found)
        benchmark_document({folder: found}, folder)

    return call, damaged(summary, count=count, seed=4)


def curves(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """`curves.parquet` of a run folder: other bytes, and other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    save(make_results(), folder)
    path = folder / results_module.CURVES_FILE
    whole = path.read_bytes()
    table = pq.read_table(path)

    def columns() -> Inputs:
        rng = np.random.default_rng(5)
        rows = table.num_rows
        for _ in range(count // 4):
            name = str(rng.choice(table.column_names))
            new = [
                pa.array(["x"] * rows),
                pa.array([None] * rows, pa.float64()),
                pa.array([float(rng.choice([-1.0, np.nan, np.inf, 0.0, 1e308]))] * rows),
                pa.array([[1]] * rows),
                pa.array([2**64 - 1] * rows, pa.uint64()),
                pa.array([True] * rows),
            ][int(rng.integers(6))]
            changed = table.drop_columns([name])
            if rng.random() < 0.8:
                changed = changed.append_column(name, new)
            if rng.random() < 0.1:
                changed = changed.slice(0, int(rng.integers(rows)))
            stream = pa.BufferOutputStream()
            pq.write_table(changed, stream)
            yield stream.getvalue().to_pybytes()
        yield from damaged_bytes(whole, count=count - count // 4, seed=6)

    def call(content: bytes) -> None:
        path.write_bytes(content)
        text_table(results_module.load(folder))

    return call, columns()


def remembered(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """`mlflow.json` of a run folder, which a report attaches itself by."""
    path = folder / mlflow_client.TRACKING_FILE
    known = {"tracking_uri": "http://127.0.0.1:9/x", "key": "0" * 32, "parent": "a" * 32}

    def call(value: Any) -> None:
        path.write_text(json.dumps(value))
        mlflow_client.attach(folder, [])

    return call, damaged(known, count=count, seed=7)


def hyperparameters(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Every hyperparameter of every searcher with every odd value, or some of these."""
    space = MapSpace(workload("gemm:M=16,N=12,K=8"), accelerator("mm256"))
    predictor = ToyPredictor(len(space.feature_names))

    # Their libraries take seconds to import.
    names = [
        name
        for name in sorted(searchers.SEARCHERS)
        if count >= MANY or not searchers.searcher_class(name).SLOW
    ]
    for name in names:
        with suppress(ConfigError):
            extra = {"predictor": predictor} if name in LEARNED else {}
            searchers.make(name, space, seed=0, **extra)
    cases = [
        (name, parameter, value)
        for name in names
        for parameter in searchers.hyperparameters(name)
        for value in NASTY
    ]
    chosen = np.random.default_rng(8).permutation(len(cases))
    inputs = iter([cases[index] for index in chosen[: count if count < MANY else 3 * MANY]])

    def call(case: tuple[str, str, Any]) -> None:
        name, parameter, value = case
        extra = {"predictor": predictor} if name in LEARNED else {}
        searchers.make(name, space, seed=0, **{**extra, parameter: value})

    return call, inputs


def yaml_files(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """Workloads, accelerators, networks and experiments of each kind: other content."""
    path = folder / "x.yaml"
    contents: list[tuple[Callable[[Any], object], Any]] = [
        (workload, {"cnn": {"N": 1, "K": 8, "C": 8, "P": 4, "Q": 4, "R": 3, "S": 3, "stride": 2}}),
        (
            workload,
            {
                "name": "a",
                "dimensions": {"i": 4, "j": 8, "k": 2},
                "tensors": {"X": ["i", "2*i + k"], "Y": ["k", "j"], "Z": ["i", "j"]},
                "output": "Z",
            },
        ),
        (accelerator, yaml.safe_load((PRESETS / "accelerator-mm256.yaml").read_text())),
        (
            accelerator,
            {
                "extends": "mm256",
                "levels": [{"name": "L2", "capacity_words": 4096, "banks": 4}],
                "bypass": "searched",
            },
        ),
        (
            lambda file: load_network(str(file)),
            {"layers": [{"workload": {"gemm": {"M": 4, "N": 4, "K": 4}}, "count": 2}]},
        ),
        (
            lambda file: prepare(load_experiment(file, Benchmark), str(file)),
            {
                "kind": "benchmark",
                "name": "small",
                "workloads": ["gemm:M=4,N=4,K=4"],
                "searchers": {
                    "random": {},
                    "slow": {"name": "annealing", "preset": "paper", "parameters": {"chains": 2}},
                },
                "seeds": 3,
                "iterations": 50,
            },
        ),
        (
            lambda file: load_experiment(file, GenerateConfig),
            {
                "kind": "generate",
                "name": "small",
                "problems": {"family": "cnn"},
                "rows": 4000,
                "mappings_per_problem": 100,
                "problems_per_shard": 10,
            },
        ),
        (
            lambda file: load_experiment(file, Sweep),
            yaml.safe_load((EXPERIMENTS / "sweep-smoke.yaml").read_text()),
        ),
    ]

    def inputs() -> Inputs:
        for index, (load, content) in enumerate(contents):
            for value in damaged(content, count=max(1, count // 4), seed=10 + index):
                yield load, value

    def call(case: tuple[Callable[[Any], object], Any]) -> None:
        load, value = case
        try:
            text = yaml.safe_dump(value, sort_keys=False)
            path.write_text(text, encoding="utf-8")
        except (yaml.YAMLError, ValueError, RecursionError):
            return  # Not to be said in YAML.
        load(path)

    return call, inputs()


def yaml_texts(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """YAML files with other text."""
    path = folder / "x.yaml"
    text = (EXPERIMENTS / "smoke.yaml").read_text()
    text += "a: &a {b: [1, 2], c: 1:30, d: 0x1f, e: 1.5e3, f: 2024-01-01}\ng: {<<: *a}\n"

    def call(value: str) -> None:
        path.write_text(value, encoding="utf-8")
        load_yaml(path)

    return call, damaged_text(text, count=count, seed=30)


def json_texts(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """JSON files with other text."""
    text = json.dumps({"a": [1, 2.5, 'x\\"[{', None, {"b": [[]]}], "c": {"d": -1e5}}, indent=1)
    return lambda value: parse_json(value, "x"), damaged_text(text, count=count, seed=31)


def cards(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """The card of a surrogate."""
    source = sorted(SHIPPED.glob("*.json"))[0]
    card = json.loads(source.read_text())
    shutil.copy(source.with_suffix(".safetensors"), folder / "x.safetensors")
    path = folder / "x.json"

    def call(value: Any) -> None:
        path.write_text(json.dumps(value))
        found = surrogate.load(path)
        found.value(np.ones((2, len(found.card.structure.features)), np.float32))

    return call, damaged(card, count=count, seed=32)


def weights(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """The weights of a surrogate, with a checksum that fits them."""
    source = sorted(SHIPPED.glob("*.json"))[0]
    card = json.loads(source.read_text())
    path = folder / "x.json"
    whole = source.with_suffix(".safetensors").read_bytes()
    head = 8 + int.from_bytes(whole[:8], "little")

    def inputs() -> Inputs:
        for start in damaged_bytes(whole[:head], count=count // 8, seed=33):
            yield start + whole[head:]
        for end in damaged_bytes(whole[head:], count=count // 8, seed=34):
            yield whole[:head] + end

    def call(content: bytes) -> None:
        path.with_suffix(".safetensors").write_bytes(content)
        path.write_text(json.dumps({**card, "sha256": hashlib.sha256(content).hexdigest()}))
        found = surrogate.load(path)
        found.value(np.ones((2, len(found.card.structure.features)), np.float32))

    return call, inputs()


def small_files(folder: Path, count: int) -> tuple[Callable[[Any], object], Inputs]:
    """A training run's curve, a lock's owner, a search's state."""
    point = dict.fromkeys(("seconds", "loss", "held_out_loss", "rmse", "spearman"), 0.5)
    state = folder / "x.npz"
    save_state(state, {"a": np.arange(5), "b": [1, None, {"c": "x"}]})
    whole = state.read_bytes()

    def curve(value: Any) -> None:
        (folder / options.CURVE_FILE).write_text(json.dumps(value))
        options.read_curve(folder)

    def owner(value: Any) -> None:
        raise _refusal(folder, json.dumps(value).encode())

    def states(value: bytes) -> None:
        state.write_bytes(value)
        load_state(state)

    def inputs() -> Inputs:
        for value in damaged([{"views": 1, **point}] * 2, count=count // 3, seed=35):
            yield curve, value
        for value in damaged({"owner": "x", "since": "y"}, count=count // 3, seed=36):
            yield owner, value
        for content in damaged_bytes(whole, count=count // 3, seed=37):
            yield states, content

    return lambda case: case[0](case[1]), inputs()


PRESETS = Path(inspect.getfile(costmodel)).parent / "presets"
NESTS = sorted((GOLDEN / "timeloop-general").glob("*.jsonl.gz"))
CONSTRAINTS = min((GOLDEN / "timeloop-mapspaces").glob("*.jsonl.gz"))
DOORS: tuple[Door, ...] = (
    records,
    nest_records,
    machines,
    cluster_records,
    record_lines,
    summaries,
    curves,
    remembered,
    hyperparameters,
    yaml_files,
    yaml_texts,
    json_texts,
    cards,
    weights,
    small_files,
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.filterwarnings("ignore")
def test_damaged_input_is_answered_or_refused(door: Door, tmp_path: Path) -> None:
    call, inputs = door(tmp_path, FEW)
    counts = fuzz(door.__name__, call, inputs)
    assert counts["refused"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.filterwarnings("ignore")
def test_damaged_input_by_the_thousand(door: Door, tmp_path: Path) -> None:
    call, inputs = door(tmp_path, MANY)
    counts = fuzz(door.__name__, call, inputs)
    assert counts["refused"] > 0
    assert sum(counts.values()) >= MANY // 4


def test_the_fuzzer_finds_what_it_looks_for() -> None:
    def fragile(tree: Any) -> None:
        if not isinstance(tree, dict) or not isinstance(tree.get("a"), int):
            raise ConfigError("a: expected a whole number.")
        1 // tree["a"]

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzz("fragile", fragile, damaged({"a": 1}, count=300, seed=0))


def test_the_fuzzer_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzzing.SECONDS", 0.05)

    def endless(_: Any) -> None:
        while True:
            pass

    with pytest.raises(AssertionError, match="Hang"):
        fuzz("endless", endless, [1])
