"""Two runs of one benchmark: what is worse, what is chance, and what cannot be compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import call
from sample_results import lined_up, make_results

from mapspace.errors import ConfigError
from orchestrator.comparison.results import Results, Run
from orchestrator.comparison.results_files import save
from orchestrator.comparison.two_runs import compare


def changed(results: Results, factor: Callable[[Run], float]) -> Results:
    """The same searches with other ends."""
    runs = [
        replace(run, best_loss=run.best_loss * factor(run), loss=run.loss * factor(run))
        for run in results.runs
    ]
    return replace(results, runs=runs)


def test_the_same_run_twice_is_no_difference() -> None:
    found = compare(lined_up(), lined_up())
    assert {one.verdict for one in (*found.methods, *found.cells)} == {"no difference"}
    assert found.conclusion == "No difference: every search ends where it ended."
    assert [one.pairs for one in found.methods] == [30, 30, 30]
    assert len(found.cells) == 15
    assert (found.alone, found.notes, found.worse) == ((), (), [])


def test_what_is_worse_and_what_is_better_is_named() -> None:
    factors = {"annealing": 1.1, "random": 0.9, "genetic": 1.0}
    found = compare(lined_up(), changed(lined_up(), lambda run: factors[run.searcher]))
    told = {one.method: one for one in found.methods}
    assert told["annealing"].verdict == "worse"
    assert told["annealing"].ratio == pytest.approx(1.1)
    # Thirty pairs that all differ one way, three methods: the last of them is level for sure.
    assert told["annealing"].p < 1e-4
    assert (told["random"].verdict, told["genetic"].verdict) == ("better", "no difference")
    assert found.conclusion == "Worse: annealing. Better: random."
    assert [one.method for one in found.worse] == ["annealing"]


def test_one_problem_can_be_worse() -> None:
    """Of ten seeds p is 2 / 2^10, times fifteen tests."""
    before = lined_up(seeds=10)
    bad = ("genetic", "problem-3")
    after = changed(before, lambda run: 1.5 if (run.searcher, run.workload) == bad else 1.0)
    (one,) = [one for one in compare(before, after).cells if one.verdict == "worse"]
    assert (one.method, one.workload) == bad
    assert one.p == pytest.approx(15 * 2 / 2**10)


def test_noise_is_chance() -> None:
    before = lined_up(seeds=10)
    after = changed(before, lambda run: math.exp(0.01 if run.seed % 2 else -0.01))
    found = compare(before, after)
    assert {one.verdict for one in (*found.methods, *found.cells)} == {"no difference"}
    assert found.conclusion == "No difference that is not chance."


def test_few_pairs_tell_nothing() -> None:
    few = make_results()  # two workloads, two seeds
    found = compare(few, changed(few, lambda run: 2.0))
    assert {one.verdict for one in found.methods} == {"too few pairs"}
    assert "Fewer than 6 pairs" in found.conclusion
    assert found.worse == []


def test_seeds_are_paired_by_their_number() -> None:
    before = lined_up(seeds=8)
    runs = [run for run in before.runs if run.seed > 1][::-1]
    found = compare(before, replace(before, runs=runs))
    assert {one.ratio for one in found.methods} == {1.0}
    assert [one.pairs for one in found.methods] == [30, 30, 30]


def test_what_found_nothing_is_infinitely_worse() -> None:
    before = lined_up()
    after = changed(before, lambda run: math.inf if run.searcher == "random" else 1.0)
    (worse,) = [one for one in compare(before, after).methods if one.verdict == "worse"]
    assert (worse.method, worse.ratio) == ("random", math.inf)
    assert compare(before, after).to_dict()["methods"][2]["ratio"] is None
    assert [one.ratio for one in compare(after, before).methods] == [1.0, 1.0, 0.0]


def test_a_mixture_of_lost_and_found_has_a_side() -> None:
    before = lined_up(seeds=10)
    once = changed(before, lambda run: math.inf if run.seed == 0 else 1.0)
    often = changed(before, lambda run: math.inf if run.seed > 2 else 1.0)
    assert {one.verdict for one in compare(once, often).methods} == {"worse"}
    assert {one.verdict for one in compare(often, once).methods} == {"better"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"provenance": {"accelerator": "other"}}, "accelerator: expected the same, got "),
        ({"provenance": {"model_version": "2"}}, "model version: expected the same, got 1 and 2"),
        ({"provenance": {"workloads": {"problem-0": "x"}}}, "others of the same names"),
        ({"experiment": {"iterations": 20}}, "iterations: expected the same, got 10 and 20"),
        ({"experiment": {"objective": "energy"}}, "objective: expected the same, got edp"),
    ],
)
def test_other_questions_are_refused(made: dict[str, dict[str, Any]], message: str) -> None:
    before = lined_up()
    after = replace(
        before,
        provenance={**before.provenance, **made.get("provenance", {})},
        experiment={**before.experiment, **made.get("experiment", {})},
    )
    with pytest.raises(ConfigError, match=message):
        compare(before, after)
    with pytest.raises(ConfigError, match="workloads: expected the same, got problem-0, "):
        compare(before, lined_up(problems=6))


def test_what_else_differs_is_said() -> None:
    before = lined_up()
    noted = {"hyperparameters": {"random": {"patience": None}}}
    after = replace(
        before,
        provenance={
            **before.provenance,
            "hyperparameters": {"random": {"patience": 9}},
            "processors": 64,
        },
        runs=[run for run in before.runs if run.searcher != "genetic"],
    )
    found = compare(replace(before, provenance={**before.provenance, **noted}), after)
    assert found.notes == (
        "hyperparameters of random: not the same in both.",
        "processors: 2 and 64.",
    )
    assert found.alone == ("genetic",)


def test_the_command_ends_with_one_where_something_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lined_up()
    after = changed(before, lambda run: 1.1 if run.searcher == "genetic" else 1.0)
    for name, results in (("before", before), ("after", after)):
        (tmp_path / name).mkdir()
        save(results, tmp_path / name)
    folders = [tmp_path / "before", tmp_path / "after"]
    assert call("compare", *folders) == 1
    said = capsys.readouterr().out
    assert "Worse: genetic." in said
    assert "method on" not in said
    table = [line.split() for line in said.splitlines()[:4]]
    assert table == [
        ["method", "pairs", "loss", "time", "p"],
        ["annealing", "30", "1", "1", "1", "no", "difference"],
        ["genetic", "30", "1.1", "1", "2.2e-06", "worse"],
        ["random", "30", "1", "1", "1", "no", "difference"],
    ]
    assert not any(note in said for note in ("not the same in both", "in one of them alone"))
    fewer = replace(
        after,
        provenance={**after.provenance, "processors": 64},
        runs=[run for run in after.runs if run.searcher != "random"],
    )
    save(fewer, tmp_path / "before")
    call("compare", *folders)
    lines = capsys.readouterr().out.splitlines()
    assert "random: in one of them alone." in lines
    assert "processors: 64 and 2." in lines
    save(before, tmp_path / "before")
    assert call("compare", *folders[::-1]) == 0
    capsys.readouterr()
    assert call("compare", *folders, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["methods"][1]["verdict"] == "worse"
    assert call("compare", tmp_path, folders[0]) == 2
    assert "expected one benchmark's run folder" in capsys.readouterr().err
