"""Mapping records: short ones, by name, by file or embedded; their schema; the guides' examples."""

from __future__ import annotations

import copy
import gzip
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from commands import answer, call, printed
from paths import GOLDEN, ROOT

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.record_forms import as_nest
from costmodel.loop_nest.record_schema import IDENTIFIER, record_schema, schema_text
from costmodel.loop_nest.records import mapping_record, score
from costmodel.machines.levels import ActionEnergies, Level, SpatialRules
from costmodel.machines.machine import Machine
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workload_families import FAMILIES, Einsum
from mapspace.errors import ConfigError

Record = dict[str, Any]
Capture = pytest.CaptureFixture[str]
GUIDE = ROOT / "docs" / "guide"
VALIDATOR = jsonschema.Draft202012Validator(record_schema())


def blocks(page: str, language: str) -> list[str]:
    text = (GUIDE / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def five() -> Record:
    record: Record = yaml.safe_load(blocks("formats.md", "yaml")[0])
    return record


def costs(record: Record) -> Record:
    result: Record = ms.evaluate([record])[0]["result"]
    return result


def test_five_lines_are_a_record(tmp_path: Path, capsys: Capture) -> None:
    (text, *_) = blocks("formats.md", "yaml")
    assert len(text.splitlines()) == 5
    file = tmp_path / "five.yaml"
    file.write_text(text)
    whole = json.loads(printed(capsys, "evaluate", "--model", "loopnest", file))
    assert whole["result"] == costs(five())
    # A MAC of each of 256 elements per cycle; every input word enters the chip once.
    assert whole["result"]["cycles"] == 64**3 / 256
    (dram, *_) = whole["result"]["levels"]
    assert dram["tensors"]["A"]["reads"] == 64 * 64
    assert [level["level"] for level in whole["mapping"]] == ["DRAM", "L2", "L1"]
    assert "for m1 = 0 to 64 step 16:" in printed(capsys, "export", file, "--as", "pseudo")


def test_the_same_by_name_by_file_and_embedded(tmp_path: Path) -> None:
    expected = costs(five())
    work, machine = tmp_path / "layer.yaml", tmp_path / "machine.yaml"
    work.write_text("gemm: {M: 64, N: 64, K: 64}\n")
    machine.write_text("extends: mm256\n")
    by_file = five() | {"workload": str(work), "accelerator": str(machine)}
    assert costs(by_file) == expected
    content = {
        "workload": {"gemm": {"M": 64, "N": 64, "K": 64}},
        "accelerator": {"extends": "mm256"},
    }
    assert costs(five() | content) == expected
    whole = as_nest(five())
    assert not {"workload", "accelerator"} & whole.keys()
    assert costs(whole) == expected
    mixed = {key: whole[key] for key in ("problem", "mapping")} | {"accelerator": "mm256"}
    assert costs(mixed) == expected


def test_by_level_too_and_levels_and_orders_may_be_left_out() -> None:
    short = five() | {
        "mapping": {
            "L2": {"temporal": {"M": 4}, "spatial": {"N": 16, "M": 16}},
            "L1": {"temporal": {"N": 4, "K": 64}, "perm": "NK"},
        }
    }
    found, expected = costs(short), costs(five())
    assert found["energy_pj"] == pytest.approx(expected["energy_pj"], rel=1e-12)
    assert found["cycles"] == expected["cycles"]
    short["mapping"]["L1"]["perm"] = "K"
    with pytest.raises(
        ms.ConfigError, match=r"L1\.perm: expected a permutation of M, N, K, got 'K'"
    ):
        costs(short)
    banked = json.loads(blocks("formats.md", "json")[0])
    assert costs(banked)["cycles"] == expected["cycles"]


def test_what_a_level_holds_is_what_its_machine_lets_it_hold() -> None:
    record = {
        "workload": "cnn:N=1,K=4,C=4,P=8,Q=8,R=3,S=3",
        "accelerator": "eyeriss168",
        "mapping": [
            {
                "level": "DRAM",
                "temporal": [["K", 4], ["C", 4], ["P", 8], ["Q", 8], ["R", 3], ["S", 3]],
            }
        ],
    }
    held = {level["level"]: level["keep"] for level in as_nest(record)["mapping"]}
    assert held["DRAM"] == ["Weights", "Inputs", "Outputs"]
    assert list(held.values()).count(["Weights"]) == 1
    record["mapping"][0]["keep"] = ["Weights"]  # type: ignore[index]
    assert as_nest(record)["mapping"][0]["keep"] == ["Weights"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version: expected 1, got 2"),
        ({"problem": {}}, "workload: problem says it as well; give one of them"),
        ({"workload": "gemm-51"}, "Unknown workload 'gemm-51'"),
        ({"accelerator": ..., "accelrator": "mm256"}, "accelrator: unknown key; did you mean acc"),
        ({"mapping": ..., "densities": {"A": 0.5}}, "densities: sparse tensors are not modelled"),
        ({"mapping": ..., "bitwidths": {"A": 4}}, "bitwidths: expected as bits of the tensors"),
        ({"mapping": ..., "constraints": []}, "constraints: expected in the machine, as"),
        ({"mapping": ..., "maping": []}, "maping: unknown key; did you mean mapping"),
        ({"accelerator": "mm25"}, "Unknown accelerator 'mm25'"),
        ({"accelerator": "mindmappings"}, "mapping[L2].banks: expected 16 banks"),
        ({"accelerator": {"extends": "mm256", "overflow": "bypass"}}, "has overflow: bypass"),
        ({"mapping": None}, "mapping: expected levels with their loops, got nothing"),
        ({"mapping": [{"level": "L9"}]}, "level: one of DRAM, L2, L1; got 'L9'"),
        ({"mapping": [{"level": "L1"}, {"level": "L2"}]}, "expected levels in the machine's order"),
        ({"mapping": [{"level": "L1"}, {"level": "L1"}]}, "the level 'L1' has two entries"),
        ({"mapping": [{"level": "L1", "spatial": 3}]}, "mapping"),
        ({"mapping": [{"level": "L1", "temporal": [["M", 32]]}]}, "factors of M multiply to 32"),
        ({"mapping": [{"level": "L1", "temporal": [["W", 2]]}]}, "unknown 'W'; known: K, M, N"),
        ({"mapping": [{"level": "L1", "keep": ["Q"]}]}, "unknown 'Q'; known: A, B, Z"),
    ],
)
def test_bad_records_are_one_line(changes: Record, message: str) -> None:
    changed = {key: value for key, value in (five() | changes).items() if value is not ...}
    with pytest.raises(ms.ConfigError) as caught:
        costs(changed)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload:\n\t- gemm\n", "line 2: a tab; YAML wants spaces"),
        ('run: "e (\\S+)"\n', "a backslash in double quotes; single quotes leave it as it is"),
        ("{", "record.yaml"),
        ("workload: gemm:M=4,N=4,K=4\n", "mapping: expected levels with their loops"),
    ],
)
def test_bad_files_end_with_2(text: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "record.yaml"
    file.write_text(text)
    assert call("evaluate", "--model", "loopnest", file) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_schema_that_is_published_is_that_of_the_models(capsys: Capture) -> None:
    published = (ROOT / "docs" / "schemas" / IDENTIFIER).read_text()
    assert published == schema_text(), "mapspace schema record > docs/schemas/..."
    assert printed(capsys, "schema", "record") == published
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


def test_records_of_every_age_obey_the_schema() -> None:
    seen = 0
    for file in sorted(GOLDEN.glob("timeloop*/*.jsonl.gz")):
        with gzip.open(file, "rt") as lines:
            for line, _ in zip(lines, range(15), strict=False):
                record = json.loads(line)
                if "mapping" in record:
                    VALIDATOR.validate(record)
                    seen += 1
    assert seen > 400
    VALIDATOR.validate(five())
    VALIDATOR.validate(json.loads(blocks("formats.md", "json")[0]))


def test_what_commands_write_obeys_the_schema(tmp_path: Path, capsys: Capture) -> None:
    small, problem = "gemm:M=8,N=4,K=4", tmp_path / "asked.jsonl"
    whole = as_nest(five())
    lines = [{key: whole[key] for key in ("arch", "problem")}] * 2
    problem.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    commands = {
        "one": ("search", small, "--top", "2"),
        "deep": ("search", small, "--accelerator", "cluster6x20"),
        "lines": ("search", "--problems", problem),
        "front": ("pareto", small),
        "bypass": ("bypass", small),
    }
    for name, command in commands.items():
        file = tmp_path / f"{name}.jsonl"
        printed(capsys, *command, "--output", file)
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert records
        assert {"one": 2, "deep": 1, "lines": 2, "bypass": 2}.get(name, len(records)) == len(
            records
        )
        for record in records:
            VALIDATOR.validate(record)
        assert all("energy_pj" in found["result"] for found in ms.evaluate(file))
    assert answer(capsys, "bypass", small)["layers"][0]["kept"]["record"]


DAMAGED: list[tuple[tuple[Any, ...], Any]] = [
    (("version",), 2),
    (("workload",), 3),
    (("mapping",), "M4"),
    (("mapping", 0, "temporal"), [["M"]]),
    (("mapping", 0, "temporal"), [["M", 0]]),
    (("mapping", 0, "spatial"), [["M", 2, "Z"]]),
    (("mapping", 0, "keep"), "A"),
    (("mapping", 0, "level"), None),
    (("problem",), {"dims": {}, "tensors": []}),
]


@pytest.mark.parametrize(("path", "value"), DAMAGED)
def test_the_schema_refuses_what_evaluate_refuses(path: tuple[Any, ...], value: Any) -> None:
    record = copy.deepcopy(five())
    target: Any = record
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert not VALIDATOR.is_valid(record)
    with pytest.raises(ms.ConfigError):
        costs(record)


def table_keys(page: str) -> set[str]:
    """What stands in the first columns of a page's tables."""
    rows = re.findall(r"^\| (`.*?) \|", (GUIDE / page).read_text(), re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_the_guides_have_every_key() -> None:
    keys = table_keys("accelerators.md")
    assert set(Machine.model_fields) | set(Level.model_fields) <= keys
    text = (GUIDE / "accelerators.md").read_text()
    for model in (SpatialRules, ActionEnergies):
        assert all(re.search(rf"\b{key}\b", text) for key in model.model_fields)
    assert set(FAMILIES) | set(Einsum.model_fields) | {"name"} <= table_keys("workloads.md")


def test_the_machines_and_workloads_of_the_guides_load() -> None:
    texts = [
        text for page in ("own-machine.md", "accelerators.md") for text in blocks(page, "yaml")
    ]
    machines = [ms.accelerator(yaml.safe_load(text)) for text in texts]
    named = {machine.name for machine in machines}
    assert {"array", "row-stationary", "my-systolic", "my-clusters", "systolic"} <= named
    for machine in machines:
        space = ms.MapSpace(ms.workload("alexnet-conv4"), machine)
        assert space.size() > 10**6
    assert [ms.workload(yaml.safe_load(text)).name for text in blocks("workloads.md", "yaml")] == [
        "depthwise",
        "scores",
        "quantised",
    ]


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        (("mapping", 0), "bypass", "mapping[0].bypass: unknown key. Known keys: level, keep"),
        (("mapping", 0), "keeep", "mapping[0].keeep: unknown key; did you mean keep?"),
        (("mapping", 0), "temporal_rests", "temporal_rests: unknown key"),
        (("arch", "levels", 1), "size_word", "size_word: unknown key; did you mean size_words?"),
        (("arch", "mac"), "energy", "arch.mac.energy: unknown key"),
        (("arch",), "word_bits", "arch.word_bits: unknown key"),
        (("problem",), "stride", "problem.stride: unknown key"),
        (("problem", "tensors", 0), "role", "role: unknown key"),
    ],
)
def test_a_key_that_nobody_reads_is_refused(place: tuple[Any, ...], key: str, says: str) -> None:
    record = as_nest(
        {
            "workload": "gemm:M=4,N=4,K=4",
            "accelerator": "mm256",
            "mapping": [{"level": "L1", "temporal": [["M", 4], ["N", 4], ["K", 4]]}],
        }
    )
    record = json.loads(json.dumps(record | {"mine": {"kept": 3}}))
    part = record
    for step in place:
        part = part[step]
    part[key] = []
    with pytest.raises(ConfigError) as refused:
        score([record], LoopNestModel())
    assert says in str(refused.value)


def test_a_key_that_nobody_reads_is_refused_in_records_by_level() -> None:
    space = MapSpace("gemm:M=4,N=4,K=4", "mm256")
    record = mapping_record(space, space.sample(np.random.default_rng(0), 1, feasible=True)[0])
    for part, key, says in (
        ("arch", "size_word", "arch.size_word: unknown key; did you mean size_words?"),
        ("mapping", "L9", "mapping: unknown 'L9'"),
    ):
        broken = {**record, part: {**record[part], key: {}}}
        with pytest.raises(ConfigError, match=re.escape(says)):
            score([broken], LoopNestModel())
    level = {**record["mapping"]["L1"], "bypass": ["A"]}
    with pytest.raises(ConfigError, match=r"mapping.L1.bypass: unknown key. Known keys: temporal"):
        score([{**record, "mapping": {**record["mapping"], "L1": level}}], LoopNestModel())
