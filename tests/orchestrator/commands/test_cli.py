"""The command line: one clear line for a mistake, JSON that keeps its promises, a fast start."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import call, interrupted

from costmodel.loop_nest.model import LoopNestModel

SLOW_LIBRARIES = {"ray", "torch", "mlflow", "pandas", "matplotlib", "pyarrow", "rich"}


def one_record() -> dict[str, Any]:
    return {
        "note": "kept",
        "problem": {"name": "tiny", "kind": "gemm", "dims": {"M": 4, "N": 6, "K": 8}},
        "arch_name": "two-level",
        "arch": {
            "levels_outer_to_inner": ["DRAM", "L1"],
            "size_words": {"DRAM": None, "L1": 64},
            "instances": {"DRAM": 1, "L1": 2},
            "mesh": [2, 1],
            "energy_pj_per_word_access": {"DRAM": 100.0, "L1": 1.0},
            "mac_energy_pj": 1.0,
        },
        "mapping": {
            "DRAM": {
                "temporal": {"M": 2, "N": 6, "K": 1},
                "perm": "MNK",
                "spatial": {"M": 2, "N": 1, "K": 1},
                "spatial_perm": "MNK",
            },
            "L1": {"temporal": {"M": 1, "N": 1, "K": 8}, "perm": "KMN"},
        },
    }


def write_lines(path: Path, records: list[Any]) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in records)
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["search", "nothing"], 2, "Unknown workload 'nothing'"),
        (["search", "gemm-512", "--accelerator", "tpu"], 2, "Unknown accelerator 'tpu'"),
        (["search", "gemm-512", "--searcher", "luck"], 2, "Unknown searcher 'luck'"),
        (["search", "gemm-512", "--searcher", "anealing"], 2, "did you mean annealing?"),
        (["search", "gemm:M=5 N=6 K=7"], 2, "expected commas between the sizes: gemm:M=5,N=6,K=7."),
        (["search", "gemm-512", "--gap", "5"], 2, "got '5'; did you mean 5%?"),
        (["search", "gemm-512", "--seconds", "0"], 2, "above 0 seconds, got 0.0"),
        (["search", "gemm-512", "--iterations", "0"], 2, "at least 1 iteration, got 0"),
        (
            ["search", "resnet-conv4", "--searcher", "gradient", "--surrogate", "nope"],
            2,
            "nope: holds no surrogate",
        ),
        (["search", "gemm-512", "--searcher", "random", "--top", "2"], 2, "random has no such"),
        (
            ["search", "gemm-512", "--searcher", "random", "--surrogate", "x"],
            2,
            "a learned searcher",
        ),
        (
            ["search", "gemm-512", "--searcher", "gradient", "--accelerator", "hops4x16"],
            2,
            "The one for every machine does not fit: it knows bypass: none, not searched.",
        ),
        (["search", "gemm-512", "--seed", "-1"], 2, "-1 is not in the range x>=0"),
        (["search", "gemm-512", "--iterations", "0"], 2, "at least 1 iteration"),
        (["search", "gemm-512", "--seconds", "nan"], 2, "above 0 seconds"),
        (["search", "gemm-512", "--objective", "area"], 2, "energy, latency, ed2p, got 'area'"),
        (["search", "gemm:M=4,N=0,K=2"], 2, "N"),
        (["search", "gemm-512", "--output", "no/such/folder/x"], 2, "does not exist"),
        (["search"], 2, "Missing argument 'WORKLOAD'"),
        (["serch"], 2, "No such command 'serch'"),
        (["evaluate", "--model", "maestro", "x"], 2, "x: there is no such file"),
        (
            ["evaluate", "--model", "maestro", "--link-transfers", "x"],
            2,
            "Cost model maestro has no link transfers; loopnest has.",
        ),
        (
            ["evaluate", "--model", "guess", "x"],
            2,
            "Unknown cost model 'guess'. Known: command, loopnest, maestro, m",
        ),
        (["evaluate", "--model", "loopnest", "x.jsonl"], 2, "x.jsonl: there is no such file"),
        (["benchmark", "nowhere.yaml"], 2, "nowhere.yaml: there is no such file"),
        (["benchmark", "smoek"], 2, "did you mean smoke"),
        (["report", "nowhere"], 2, "nowhere: there is no such folder"),
        (["list", "planets"], 2, "networks, experiments, got 'planets'"),
        (["search", "gemm-512", "--objective", "edpp"], 2, "got 'edpp'; did you mean edp?"),
        (["results", "--kind", "serch"], 2, "got 'serch'; did you mean search?"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == code
    output = capsys.readouterr()
    assert output.out == ""
    errors = [line for line in output.err.splitlines() if line.startswith("Error: ")]
    assert errors == [output.err.splitlines()[-1]]
    assert message in errors[0]
    assert list(tmp_path.iterdir()) == []


def test_search_answers_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record_file = tmp_path / "record.json"
    arguments = ["search", "gemm-512", "--iterations", "3000", "--seed", "5", "--json"]
    arguments += ["--searcher", "structured"]
    assert call(*arguments, "--output", str(record_file)) == 0
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert answer["workload"] == "gemm-512"
    assert answer["accelerator"] == "mm256"
    assert answer["model"] == "loopnest"
    assert answer["searcher"] == "structured"
    assert answer["seed"] == 5
    assert answer["iterations"] == 3000
    assert answer["seconds"] > 0
    assert answer["edp"] == pytest.approx(answer["energy_pj"] * answer["latency_cycles"])
    assert answer["normalised_edp"] > 1
    assert answer["gap_to_floor"] > 0
    # What a heuristic finds is held against the optimum, which is proven afterwards.
    assert answer["lower_bound"] * (1 + answer["gap"]) == pytest.approx(answer["edp"])
    assert answer["gap_to_optimum"] == answer["gap"]
    assert answer["proven"] is (answer["gap"] == 0)
    assert "above the bound" in output.err
    # The winner is a record that evaluate accepts, at the same cost.
    assert json.loads(record_file.read_text()) == answer["record"]
    assert call("evaluate", "--model", "loopnest", str(record_file)) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["energy_pj"] == answer["energy_pj"]
    assert result["cycles"] == answer["latency_cycles"]


def test_search_repeats_under_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        arguments = ("search", "alexnet-conv2", "--iterations", "2000", "--json")
        assert call(*arguments, "--searcher", "structured") == 0
        answers.append(json.loads(capsys.readouterr().out))
    first, second = ({**answer, "seconds": None, "wall_seconds": None} for answer in answers)
    assert first == second


def test_the_floor_of_the_latency_is_reached_and_proven(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        call("search", "gemm-512", "--iterations", "500", "--objective", "latency", "--json") == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["lower_bound"] == 512**3 / 256
    assert answer["latency_cycles"] == answer["lower_bound"]
    assert answer["proven"] is True


def test_search_explains_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", "resnet-conv4", "--iterations", "3000") == 0
    text = capsys.readouterr().out
    for part in ("DRAM", "parallel for", "multiply-accumulate", "energy, ", "Weights", "MAC"):
        assert part in text
    for part in ("cycles ", "utilisation", "EDP", "proven optimal", "with exact"):
        assert part in text


def test_search_imports_nothing_slow() -> None:
    code = (
        "import sys\n"
        "from orchestrator.cli import main\n"
        "try:\n"
        "    main(['search', 'gemm-512', '--iterations', '300'])\n"
        "except SystemExit as done:\n"
        "    assert done.code == 0\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "numba" in loaded
    assert {name.split(".")[0] for name in loaded} & SLOW_LIBRARIES == set()
    # Numba itself looks at SciPy's package, but what takes long is loaded only by reports.
    assert "scipy.stats" not in loaded


def test_interrupting_a_search_prints_the_best_so_far() -> None:
    options = ("--seconds", "600", "--json", "--searcher", "structured")
    status, out, err = interrupted("iterations", "search", "resnet-conv4", *options, later=0.3)
    assert status == 130, err
    assert err.splitlines()[-1] == "Error: interrupted: this is the best so far."
    answer = json.loads(out)
    assert answer["interrupted"] is True
    assert answer["edp"] > 0
    assert answer["seconds"] < 500


def test_a_search_that_was_started_to_ignore_interrupts_does_so() -> None:
    # As a script starts what it puts into the background.
    before = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    options = ("--seconds", "2", "--searcher", "structured")
    status, out, err = interrupted("iterations", "search", "resnet-conv4", *options, before=before)
    assert status == 0, err
    assert "interrupted" not in err
    assert "EDP" in out


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_evaluate_keeps_what_it_does_not_know(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, tight = one_record(), one_record()
    tight["arch"]["size_words"]["L1"] = 8
    source = write_lines(tmp_path / f"in{suffix}", [good, tight])
    output = tmp_path / f"out{suffix}"
    assert call("evaluate", "--model", "loopnest", str(source), "--output", str(output)) == 0
    assert "2 records scored, 1 of them infeasible" in capsys.readouterr().err
    opener = gzip.open if output.suffix == ".gz" else open
    with opener(output, "rt") as file:
        first, second = (json.loads(line) for line in file)
    # By hand: 4 x 6 x 8 MACs; the DRAM reads A twice 2 rows of 8 per column of B, B per half of M.
    assert first["note"] == "kept"
    assert first["result"]["cycles"] == 96
    assert first["result"]["macs"] == 192
    assert first["result"]["utilization"] == 1.0
    made_by = {"model": "loopnest", "model_version": LoopNestModel.version}
    assert second["result"] == {"status": "capacity of L1 exceeded by 9 words"} | made_by
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"in{suffix}", f"out{suffix}"]


def test_evaluate_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = one_record()
    bad["mapping"]["L1"]["temporal"]["K"] = 7
    source = tmp_path / "in.jsonl"
    output = tmp_path / "out.jsonl"
    write_lines(source, [one_record(), one_record(), bad])
    source.write_text("\n" + source.read_text())
    arguments = ("evaluate", "--model", "loopnest", str(source), "--output", str(output))
    assert call(*arguments) == 2
    assert f"Error: {source}:4: " in capsys.readouterr().err
    source.write_text(json.dumps(one_record()) + "\n{not json\n")
    assert call(*arguments) == 2
    assert f"Error: {source}:2: not JSON" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_evaluate_names_a_damaged_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "in.jsonl.gz", [one_record()] * 50)
    source.write_bytes(source.read_bytes()[:-30])
    assert call("evaluate", "--model", "loopnest", str(source)) == 1
    assert "in.jsonl.gz:31: the file is damaged" in capsys.readouterr().err


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    text = capsys.readouterr().out
    for name in ("structured", "loopnest", "eyeriss-168", "mttkrp-1", "table1-iso-time"):
        assert f"  {name} " in text
    assert "maestro-corrected  Cluster mappings by true counts: every fetch, remainders" in text
    assert call("list", "accelerators") == 0
    assert "mttkrp-1" not in capsys.readouterr().out
    assert call("list", "networks") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NETWORKS"
    # VGG-16's known 15.3 billion, of which the tables elsewhere say the same.
    assert ["vgg16", "13", "layers,", "9", "distinct", "(15.35", "GMAC)"] in map(str.split, lines)
    assert call("list", "workloads") == 0
    text = capsys.readouterr().out
    assert "the same as mobilenetv2-bottleneck2_2_1" in text
    assert "(0.000" not in text


def test_lists_are_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "experiments") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_commands_are_summarised_in_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Finds a mapping of WORKLOAD now: the proven best one where a proof is possible" in text
    assert text.count("...") == text.count("[ARGS]...") == 1


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--iterations", "0"]])
def test_a_budget_is_refused_before_any_work(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepared(*_: object) -> None:
        raise AssertionError("something was prepared")

    commands = (
        ["search", "gemm-512"],
        ["search", "--network", "alexnet"],
        ["tile", "gemm-512", "--model", "tiling"],
    )
    for command in commands:
        # Whoever is imported first while `make` is another one would keep that.
        assert call(*command, *arguments) == 2
    capsys.readouterr()
    monkeypatch.setattr("orchestrator.search.one_workload.prepare", prepared)
    monkeypatch.setattr("orchestrator.networks.search.prepare", prepared)
    monkeypatch.setattr("searchers.make", prepared)
    for command in commands:
        assert call(*command, *arguments) == 2
        assert "A budget must be" in capsys.readouterr().err


def test_help_and_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    assert "benchmark" in capsys.readouterr().out
    assert call() == 2
    assert "Usage" in capsys.readouterr().err


def test_a_closed_pipe_is_no_traceback() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "list", "workloads"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
