"""`mapspace results`: SELECT over the views, options in its place, and nothing else."""

from __future__ import annotations

import csv
import io
import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import answer, call, printed
from paths import ROOT
from test_store_folder import row_of

from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.storage import RemotePath
from orchestrator.store import compaction, sql
from orchestrator.store.canonical import canonical
from orchestrator.store.compaction import compact
from orchestrator.store.folder import ROWS, Store
from orchestrator.store.rows import COLUMNS
from orchestrator.store.sql import SHOWN, VIEWS, Database


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Rows 0 to 79, the even ones of `random`; some together, some alone, 10 to 14 twice."""
    monkeypatch.setenv("MAPSPACE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(compaction, "SMALL_FILES", 99)
    found = Store(tmp_path / "store")

    def row(number: int) -> Any:
        changes = {"method": "genetic"} if number % 2 else {}
        return row_of(number, stored=1000.0 + number, kind="run", **changes)

    found.add([row(number) for number in range(70)])
    found.add([row(number) for number in range(10, 15)])
    compact(found)
    found.add([row(number) for number in range(70, 79)])
    found.add([row_of(79, certificate=f"{'a' * 32}.json", proven=True, gap=math.pi)])
    return found


def test_views_and_their_columns(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    def count(view: str) -> Any:
        return answer(capsys, "results", f"SELECT count(*) AS n FROM {view}")[0]["n"]

    assert [count(view) for view in ("results", "searches", "proofs")] == [80, 80, 1]
    (proof,) = answer(capsys, "results", "SELECT * FROM proofs")
    assert set(proof) == {*SHOWN, "stored"} == {"id", *COLUMNS} - {"payload"}
    assert proof["gap"] == math.pi
    assert proof["budget_seconds"] is None
    assert proof["stored"] == "1970-01-01T00:00:01"
    (mean,) = answer(
        capsys, "results", "WITH a AS (SELECT value FROM searches WHERE method = 'genetic') "
        "SELECT avg(value) AS mean, sum(1) AS n, 'inf'::DOUBLE AS most FROM a",
    )  # fmt: skip
    odd = [1.5 + number for number in range(80) if number % 2 and number != 79]
    assert mean == {"mean": pytest.approx(sum(odd) / len(odd)), "n": 39, "most": None}


def test_options_in_place_of_sql(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, "results", "--method", "genetic", "--limit", "3")
    assert [row["seed"] for row in rows] == [77, 75, 73]
    assert len(answer(capsys, "results", "--method", "genetic", "--workload", "gemm")) == 39
    assert answer(capsys, "results", "--workload", "none") == []
    text = printed(capsys, "results", "--limit", "2")
    assert text.splitlines()[0].split()[:3] == ["stored", "kind", "workload"]
    assert text.splitlines()[-1] == "2 rows"
    table = list(
        csv.reader(io.StringIO(printed(capsys, "results", "SELECT seed FROM proofs", "--csv")))
    )
    assert table == [["seed"], ["79"]]


def test_people_see_the_latest_in_a_line_each(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    store.add([row_of(300, accelerator="L1.capacity_words=16 L2.capacity_words=131072")])
    lines = printed(capsys, "results").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "20 rows, the latest: --limit shows more, --wide all columns"
    assert len(lines) <= 24
    wide = printed(capsys, "results", "--wide", "--limit", "81").splitlines()
    assert wide[-1] == "81 rows"
    assert len(wide) == 83
    assert {"budget_iterations", "seconds"} <= {*wide[0].split()}
    assert "L2.capacity_words=131072" in "\n".join(wide)
    assert len(answer(capsys, "results")) == 81


def test_a_workload_under_other_names(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = workload("gemm:M=8,N=4,K=6")
    store.add([row_of(200, workload="mine", problem=canonical(found).hash)])
    (row,) = answer(capsys, "results", "--workload", "gemm:M=8,N=4,K=6")
    assert row["workload"] == "mine"


def test_what_is_removed_counts_no_more(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "results", "rm", "--method", "genetic") == {"removed": 39}
    assert len(answer(capsys, "results", "SELECT id FROM results")) == 41
    done = answer(capsys, "results", "gc")
    assert done["removed"] == 39
    assert len(answer(capsys, "results", "SELECT id FROM results")) == 41
    assert answer(capsys, "results", "rm", "--older", "1") == {"removed": 41}
    assert "0 rows" in printed(capsys, "results")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", "read_text: only the views"),
        ("SELECT (SELECT max(content) FROM read_text('/etc/passwd'))", "read_text: only"),
        ("WITH a AS (FROM glob('/etc/*')) FROM a", "glob: only the views"),
        ("SELECT * FROM '/etc/passwd'", "passwd"),
        ("SELECT * FROM '/etc/some.parquet'", "disabled by configuration"),
        ("SELECT * FROM query('DROP VIEW results')", "query: only the views"),
        ("COPY searches TO 'out.csv'", "expected one SELECT statement"),
        ("ATTACH 'other.db'", "expected one SELECT statement"),
        ("INSTALL httpfs", "expected one SELECT statement"),
        ("SET threads = 1", "expected one SELECT statement"),
        ("CREATE TABLE a (b INT)", "expected one SELECT statement"),
        ("DROP VIEW searches", "expected one SELECT statement"),
        ("SELECT 1; SELECT 2", "expected one SELECT statement, got 2"),
        ("SELECT nothing FROM searches", '"nothing" not found'),
        ("SELECT FROM WHERE", "syntax error"),
        ("SELECT 'a'::INT", "Could not convert"),
        ("", "SQL"),
        ("SELECT payload FROM results", '"payload" not found'),
    ],
)
def test_only_a_select_over_the_views(
    store: Store, capsys: pytest.CaptureFixture[str], sql: str, says: str
) -> None:
    before = sorted(path.name for path in Path().iterdir())
    assert call("results", sql) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == before


def test_what_else_is_asked_is_one_line(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (
        ("--no-store",),
        ("rm",),
        ("rm", "--all", "--method", "random"),
        ("gc", "--method", "random"),
        ("SELECT 1", "--limit", "3"),
        ("--json", "--csv"),
        ("--all",),
        ("--older", "-5"),
        ("rm", "--older", "-1"),
        ("rm", "--older", "nan"),
        ("rm", "--older", "1e30"),
    ):
        assert call("results", *arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("MAPSPACE_STORE", "off")
    assert call("results") == 2


def test_a_process_that_removes_results_ends_well(store: Store, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orchestrator", "results", "rm", "--older", "1"]
    for left in (80, 0, 0):
        done = subprocess.run(
            [*command, "--store", tmp_path / "store"], cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{left} removed" in done.stdout


def test_damaged_files_are_named_and_the_others_answer(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "store" / ROWS
    (large,) = (path for path in folder.iterdir() if path.stat().st_size > 9000)
    content = large.read_bytes()
    (folder / "short.parquet").write_bytes(content[:-100])
    # Its structure is whole; DuckDB cannot make anything of its first page.
    (folder / "cleared.parquet").write_bytes(content[:4] + bytes(600) + content[604:])
    (folder / "letter.txt").write_text("x")
    (folder / f"0-{large.name}").write_bytes(content)
    assert call("results", "SELECT count(*) AS n, max(value) FROM searches", "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)[0]["n"] == 80
    lines = shown.err.splitlines()
    assert sum("short.parquet" in line for line in lines) == 1
    assert sum("cleared.parquet" in line for line in lines) == 1
    assert sum("letter.txt" in line for line in lines) == 1
    assert sum("its end is not what its name says" in line for line in lines) == 1
    assert len(lines) == 4
    assert answer(capsys, "results", "gc")["damaged"] == 3


@pytest.mark.parametrize("when", ["listed", "looked at", "opened"])
def test_files_that_others_bring_together_meanwhile_are_found_again(
    when: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(store, "say", lines.append)
    moved = []

    def move() -> None:
        if not moved:
            for path in (store.place / ROWS).iterdir():  # type: ignore[union-attr]
                moved.append(store.write_parquet(path.read_bytes()))
                path.unlink()

    look = Database._is_readable

    def looking(self: Database, path: str) -> bool:
        if when == "listed":
            move()
        readable = look(self, path)
        if when == "looked at":
            move()
        return readable

    monkeypatch.setattr(Database, "_is_readable", looking)
    database = Database(store)
    if when == "opened":
        move()
    assert database.ask("SELECT count(*) FROM searches").rows == [(80,)]
    assert moved
    assert not lines


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM range(10000000000)", "at most 20,000 rows"),
        ("SELECT md5(range::VARCHAR) FROM range(10000)", "1,000 characters"),
        ("SELECT repeat('x', 4000000000)", "repeat: expected no function"),
        ("SELECT list(range) FROM range(1000000000)", "SQL: "),
        # Takes long in little memory.
        ("SELECT sum(sqrt(range)) FROM range(100000000000)", "at most 1 s"),
    ],
)
def test_an_answer_takes_bounded_time_and_memory(
    store: Store, statement: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MOST_ROWS", 20_000)
    monkeypatch.setattr(sql, "MOST_TEXT", 1_000)
    monkeypatch.setattr(sql, "MOST_SECONDS", 1.0)
    monkeypatch.setattr(sql, "MOST_MEMORY", "200MB")
    with pytest.raises(ConfigError, match=said):
        Database(store).ask(statement)


def doubled(times: int) -> str:
    """A text of ten letters that is added to itself again and again."""
    text = "SELECT 'aaaaaaaaaa' AS s"
    for _ in range(times):
        text = f"SELECT s || s AS s FROM ({text})"
    return f"SELECT length(s) FROM ({text})"


def replaced(times: int) -> str:
    """Every letter of a text by ten, again and again."""
    text = "'aaaaaaaaaa'"
    for _ in range(times):
        text = f"replace({text}, 'a', 'aaaaaaaaaa')"
    return f"SELECT length({text})"


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux")
@pytest.mark.parametrize(
    "statement",
    [
        doubled(26),
        replaced(8),
        "SELECT length(string_agg(md5(range::VARCHAR), '')) FROM range(20000000)",
        "SELECT length(printf('%1000000000d', 1))",
        "SELECT format('{:1000000000}', 1)",
        "SELECT bar(1, 0, 1, 1000000000)",
    ],
    ids=lambda one: one[:40],
)
def test_texts_of_any_making_take_bounded_memory(
    store: Store, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No limit of the database's counts them; that of the process does, and is lifted again."""
    monkeypatch.setattr(sql, "MOST_ADDRESSES", 400 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    database = Database(store)
    with pytest.raises(ConfigError, match=r"at most 2GB|expected no function that makes texts"):
        database.ask(statement)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert database.ask(doubled(3)).rows == [(80,)]
    assert database.ask(replaced(2)).rows == [(1000,)]


def test_a_store_that_is_empty_and_one_in_a_bucket(
    bucket: RemotePath, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert answer(capsys, "results", "SELECT * FROM searches", "--store", tmp_path / "new") == []
    store = Store(bucket / "store")
    store.add([row_of(number) for number in range(70)])
    store.add([row_of(70)])
    found = Database(store).ask("SELECT count(*), sum(seed) FROM searches")
    assert found.rows == [(71, sum(range(71)))]


def test_an_empty_store_has_views_without_rows(tmp_path: Path) -> None:
    database = Database(Store(tmp_path / "empty"))
    for view in VIEWS:
        assert database.ask(f"SELECT count(*) FROM {view}").rows == [(0,)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DROP VIEW proofs", "SQL: expected one SELECT statement over the views results, searches"),
        ("SELECT 1; SELECT 2", "SQL: expected one SELECT statement, got 2."),
        ("SELECT * FROM read_csv('/etc/passwd')", "SQL: read_csv: only the views results, "),
    ],
)
def test_what_is_no_select_over_the_views(store: Store, statement: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(store).ask(statement)
    assert str(caught.value).startswith(said)


def test_values_of_every_kind_are_json(store: Store) -> None:
    statement = (
        "SELECT 0.5::DECIMAL(4, 2) AS part, {'a': [1, NULL]} AS held, 'nan'::DOUBLE AS none, "
        "TIMESTAMP '2026-01-02 03:04:05' AS at, DATE '2026-01-02' AS day, true AS yes"
    )
    (row,) = Database(store).ask(statement).objects()
    assert row == {
        "part": 0.5, "held": {"a": [1, None]}, "none": None, "at": "2026-01-02T03:04:05",
        "day": "2026-01-02", "yes": True,
    }  # fmt: skip
