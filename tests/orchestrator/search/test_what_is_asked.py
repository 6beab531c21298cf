"""Which options of `mapspace search` are for which problems: the whole table, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from orchestrator.commands.search import _Asked

ONE = _Asked(("gemm-512",), None, False, False, None, None, False, False, False)
PROBLEMS: dict[str, _Asked] = {
    "one": ONE,
    "again": replace(ONE, workload=(), continued=Path("found.json")),
    "lines": replace(ONE, workload=(), problems=Path("lines.jsonl")),
    "timeloop": replace(ONE, workload=("a.yaml", "b.yaml"), timeloop=True),
    "scalesim": replace(ONE, workload=("a.csv",), scalesim=True),
    "network": replace(ONE, workload=(), network="alexnet"),
    "jointly": replace(ONE, workload=(), network="alexnet", jointly=True),
    "resident": replace(ONE, workload=(), network="alexnet", jointly=True, resident=True),
}
FITS = {
    "max_cycles": {"jointly", "resident"},
    "max_energy_pj": {"jointly", "resident"},
    "workers": {"one", "again"},
    "islands": {"one"},
    "why_not": {"one", "again"},
    "widen": {"one"},
    "bits": {"one", "scalesim", "network", "jointly"},
    "warm_start": {"one"},
    "html": {"one", "again", "jointly", "resident"},
    "fused": {"network", "jointly", "resident"},
    "moves": {"network", "jointly", "resident"},
}


@pytest.mark.parametrize("option", FITS)
def test_an_option_is_for_some_problems(option: str) -> None:
    none = dict.fromkeys(FITS)
    for name, asked in PROBLEMS.items():
        asked.check_options(none)
        asked.check_options({**none, option: False})
        if name in FITS[option]:
            asked.check_options({**none, option: 1})
            continue
        flag = f"--{option.replace('_', '-')} is for "
        with pytest.raises(click.UsageError, match=flag):
            asked.check_options({**none, option: 1})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (replace(ONE, workload=()), "Missing argument 'WORKLOAD'"),
        (replace(ONE, workload=("a", "b")), r"unexpected extra argument \(b\)"),
        (replace(ONE, network="alexnet"), "Expected either WORKLOAD or --network, got both"),
        (replace(ONE, problems=Path("x")), "Expected --problems alone"),
        (replace(ONE, network="alexnet", continued=Path("x")), "Expected --continue alone"),
        (replace(ONE, jointly=True), "--jointly is for --network"),
        (replace(PROBLEMS["network"], resident=True), "--resident is for --network --jointly"),
    ],
)
def test_none_and_several_are_refused(asked: _Asked, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        asked.check()


def test_one_is_enough() -> None:
    for name, asked in PROBLEMS.items():
        if name not in ("timeloop", "scalesim"):  # whose files are looked at
            asked.check()
    names = [asked.name for asked in PROBLEMS.values()]
    assert names == ["gemm-512", "", "", "a.yaml", "a.csv", *["alexnet"] * 3]
    assert [name for name, asked in PROBLEMS.items() if asked.single] == ["one", "again"]
