"""Tables for a terminal: aligned by what they hold, whole, and without markup."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.report import text_table
from orchestrator.report.document import LEFT, NOTHING, RIGHT, Cell, Table
from orchestrator.report.text_table import WIDTH, fitted, labelled, line_width, table_lines, wrapped

TABLE = Table(
    "t",
    "a title",
    ("name", "of two\nlines", "text"),
    (LEFT, "{:,.2f}", RIGHT),
    [("[bold]x[/]", 1234.5, "a"), (Cell("longer name", note="small", link="x"), None, "bcd")],
)


def test_texts_are_to_the_left_and_numbers_to_the_right() -> None:
    assert table_lines(TABLE) == [
        "name         of two lines  text",
        "[bold]x[/]       1,234.50     a",
        f"longer name             {NOTHING}   bcd",
    ]


def test_a_foot_is_set_apart() -> None:
    lines = table_lines(replace(TABLE, foot=[("total", float("nan"), "")]))
    assert [lines[0], *lines[2:4]] == table_lines(TABLE)
    assert lines[1] == lines[4] == "-" * len(lines[0])
    assert lines[5].split() == ["total", NOTHING]


@pytest.mark.parametrize("foot", [(), [("total", float("nan"), "")]])
@pytest.mark.parametrize("header", [TABLE.header, ("", "", ""), ("a long name of it", "b", "")])
@pytest.mark.parametrize("width", [12, 25, 80])
def test_many_rows_are_drawn_as_few_are(
    foot: Any, header: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("row", 10.0**one, "x" * one) for one in range(9)]
    wide = [*rows, ("\u5bbd", 1.0, ""), ("two\nlines", 2.0, "a  b")]
    for some in (TABLE.rows, rows, wide, rows[:1]):
        table = replace(TABLE, rows=some, foot=foot, header=header)
        monkeypatch.setattr(text_table, "MANY", 100)
        few = table_lines(table, width=width)
        monkeypatch.setattr(text_table, "MANY", 0)
        assert table_lines(table, width=width) == few
    monkeypatch.setattr(text_table, "_drawn_by_rich", refuse_many)
    table_lines(replace(TABLE, rows=rows, foot=foot, header=header), width=80)


def refuse_many(table: Table, widths: Any, cells: Any, rows: int) -> list[str]:
    """Draws one row at most."""
    assert rows == 1
    return DRAWN_BY_RICH(table, widths, cells, rows)


DRAWN_BY_RICH = text_table._drawn_by_rich


def test_no_line_is_broken_unless_it_shall_be() -> None:
    words = "word " * 100
    table = Table("t", "", ("", ""), (LEFT, LEFT), [("first", words), ("second", "short")])
    assert table_lines(table, width=1000) == [f"first   {words.strip()}", "second  short"]
    first, *rest, last = table_lines(table, width=WIDTH)
    assert first.startswith("first   word")
    assert all(line.startswith("        word") for line in rest)
    assert max(map(len, (first, *rest))) <= WIDTH
    assert " ".join([first, *rest]).split() == ["first", *words.split()]
    assert last == "second  short"
    assert all(len(line) <= WIDTH and line[:2] == "  " for line in wrapped(words, "  "))


def test_a_table_keeps_its_numbers_for_other_programs() -> None:
    table = replace(TABLE, header=("", "x", "x"), foot=[("total", 1 / 3, "")])
    assert table.csv().splitlines() == [
        "column 1,x,x 3",
        "[bold]x[/],1234.5,a",
        "longer name,,bcd",
        "total,0.3333333333333333,",
    ]


def test_a_wide_table_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("name", *(f"L{place}.capacity_words" for place in range(12)), "told")
    row = ("machine", *(f"{10**place:,}" for place in range(12)), "a text of many words " * 3)
    table = Table("t", "", names, (LEFT, *[RIGHT] * 12, LEFT), [row, row], foot=[row])
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = table_lines(table)
        assert max(map(len, lines)) <= width == line_width()
        words = " ".join(lines).split()
        # Every number is there, whole, in every row.
        assert all(words.count(text) == 3 for text in row[1:-1])
        assert words.count("many") == 9
        # Columns that go on below stand beside the row's name once more.
        assert words.count("machine") == 3 * words.count("name") > 3
    monkeypatch.setenv("COLUMNS", "1000")
    assert len(table_lines(table)) == 6


def test_no_word_of_a_label_is_cut() -> None:
    rows = [("primitive-annealing", *[123.45] * 5), ("projected descent (visited)", *[1.0] * 5)]
    names = ("method", *(f"workload-{n}" for n in range(5)))
    lines = table_lines(Table("t", "", names, (LEFT, *["{:.2f}"] * 5), rows), width=60)
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("primitive-annealing ") for line in lines) == 2  # in both blocks
    assert any(line.startswith("projected descent ") for line in lines)


def test_texts_end_where_the_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    fact = f"limited by      {'word ' * 20}".rstrip()
    path = f"results  /{'x' * 70}"
    lines = fitted(f"{fact}\n{path}\nshort").splitlines()
    assert [line for line in lines if len(line) > 60] == [f"         /{'x' * 70}"]
    assert lines[1].startswith(f"{'':16}word")
    assert " ".join(lines).split() == [*fact.split(), *path.split(), "short"]


def test_a_command_to_copy_is_one_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["A=b", "printf", "%s|", *(f"--option-{place}" for place in range(9)), "a; b  c", "x&y"]
    command = f"A=b {shlex.join(words[1:])}"
    monkeypatch.setenv("COLUMNS", "40")
    lines = labelled("MLflow   ", command).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 40
    copied = "\n".join(lines).removeprefix("MLflow   ")
    told = subprocess.run(["sh", "-c", copied], capture_output=True, text=True, check=True)
    assert told.stdout.split("|") == [*words[3:], ""]
    monkeypatch.setenv("COLUMNS", "400")
    assert labelled("MLflow   ", command) == f"MLflow   {command}"


def test_an_address_is_whole_and_alone_where_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert labelled("curves   ", "http://x/#/a?b&c") == "curves   http://x/#/a?b&c"
    address = f"http://x/{'y' * 40}?a&b"
    assert labelled("curves   ", address) == f"curves\n{address}"
