"""The store's folder: what is written is there whole, and stays there whatever others do."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SUPPORT
from store_rows import Quiet, found, numbers, row_of

from mapspace.errors import ConfigError, DataError
from mapspace.storage import RemotePath
from orchestrator.store import compaction, folder, parquet
from orchestrator.store.address import Question
from orchestrator.store.answers import read_answer
from orchestrator.store.choice import chosen, own_folder
from orchestrator.store.compaction import clear, compact
from orchestrator.store.folder import MARKER, NEW, ROWS, Store
from orchestrator.store.parquet import parquet_bytes
from orchestrator.store.rows import Row, content_id

REQUIRED = {name for name, field in Row.model_fields.items() if field.is_required()}


def test_a_row_is_found_alone_together_and_beside_others(tmp_path: Path) -> None:
    store = Quiet(tmp_path / "store")
    assert found(store, 1) is None
    for number in range(3):
        store.add([row_of(number)])
    assert found(store, 1) == row_of(1)
    compact(store)
    assert not list((tmp_path / "store" / NEW).iterdir())
    assert len(list((tmp_path / "store" / ROWS).iterdir())) == 1
    store.add([row_of(number) for number in range(3, 200)])
    store.add([row_of(200)])
    assert numbers(store) == list(range(201))
    assert found(store, 1) == row_of(1)
    assert found(store, 150) == row_of(150)
    assert not store.lines


def test_the_best_row_of_a_question_counts(tmp_path: Path) -> None:
    store = Quiet(tmp_path)
    question = Question({"of": 0}, {})
    for value, proven in ((3.0, False), (5.0, True), (4.0, True), (1.0, False)):
        told = {"question": question.question, "value": value, "proven": proven}
        store.add([row_of(0, **told)])

    def best(serves: Callable[[Row], bool], refused: float | None = None) -> float | None:
        def value(row: Row) -> float | None:
            if row.value == refused:
                raise DataError("it is damaged.")
            return row.value

        return read_answer(store, question, serves, value)

    assert best(lambda _: True) == 4.0
    assert best(lambda row: not row.proven) == 1.0
    assert best(lambda row: row.value == 7.0) is None
    assert not store.lines
    # One that cannot be used is named, and the next one answers.
    assert best(lambda _: True, refused=4.0) == 5.0
    assert len(store.lines) == 1
    assert "it is damaged" in store.lines[0]
    assert best(lambda row: row.value == 4.0, refused=4.0) is None


def test_equal_rows_count_once(tmp_path: Path) -> None:
    store = Quiet(tmp_path)
    for _ in range(2):
        store.add([row_of(number) for number in range(70)])
        store.add([row_of(3)])
    assert numbers(store) == list(range(70))
    clear(store)
    assert numbers(store) == list(range(70))


def test_bringing_together_loses_nothing_whenever_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before any of its writes and removals, in turn."""
    real_write, real_unlink = folder.write_atomically, Path.unlink
    for stop in range(60):
        store = Quiet(tmp_path / str(stop))
        for number in range(12):
            store.add([row_of(number)])
            if number % 2:
                compact(store)
        steps = 0

        def step(stop: int = stop) -> None:
            nonlocal steps
            if steps == stop:
                raise KeyboardInterrupt
            steps += 1

        def write(path: Any, content: bytes, step: Any = step) -> None:
            step()
            real_write(path, content)

        def unlink(path: Path, missing_ok: bool = False, step: Any = step) -> None:
            if path.suffix != ".tmp":
                step()
            real_unlink(path, missing_ok=missing_ok)

        monkeypatch.setattr(compaction, "SMALL_FILES", 2)
        monkeypatch.setattr(folder, "write_atomically", write)
        monkeypatch.setattr(Path, "unlink", unlink)
        try:
            clear(store)
            stopped = False
        except KeyboardInterrupt:
            stopped = True
        monkeypatch.undo()
        assert numbers(store) == list(range(12)), stop
        assert not store.lines
        if not stopped:
            break
    else:
        pytest.fail("never came to its end")
    assert stop > 3


def test_a_folder_that_vanishes_before_it_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where somebody else has just brought its rows together."""
    real, vanished = folder.write_atomically, []

    def write(path: Any, content: bytes) -> None:
        if NEW in path.parts and not vanished:
            vanished.append(path)
            path.parent.rmdir()
        real(path, content)

    monkeypatch.setattr(folder, "write_atomically", write)
    store = Quiet(tmp_path)
    assert store.add([row_of(1)])
    assert vanished
    assert found(store, 1) == row_of(1)
    assert not store.lines


def test_removed_rows_count_no_more_even_where_somebody_writes_them_again(tmp_path: Path) -> None:
    store = Quiet(tmp_path)
    store.add([row_of(number) for number in range(70)])
    store.add([row_of(70)])
    store.remove([row_of(3).id, row_of(70).id])
    left = [number for number in range(70) if number != 3]
    assert numbers(store) == left
    assert clear(store).removed == 2
    assert numbers(store) == left
    store.add([row_of(3)])  # a compaction that had read it before
    assert numbers(store) == left


def test_certificates_that_no_row_names_go_after_a_while(tmp_path: Path) -> None:
    store = Quiet(tmp_path)
    text = '{"a": 1}\n'
    row = row_of(0, certificate=f"{content_id(text.encode())}.json")
    store.add([row], [text])
    store.add([], ["{}"])
    assert store.certificate(row) == text
    assert clear(store).certificates == 0
    assert clear(store, grace=0.0).certificates == 1
    assert store.certificate(row) == text


@pytest.mark.parametrize("together", [False, True])
def test_certificates_of_rows_that_are_moved_meanwhile_stay(
    together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Quiet(tmp_path)
    texts = [f'{{"a": {number}}}' for number in range(2)]
    rows = [
        row_of(number, certificate=f"{content_id(text.encode())}.json")
        for number, text in enumerate(texts)
    ]
    for row, text in zip(rows, texts, strict=True):
        store.add([row], [text])
        if together:
            compact(store)
    monkeypatch.setattr(compaction, "SMALL_FILES", 2)
    monkeypatch.setattr(compaction, "compact", lambda store: compaction.Cleared())
    listing, moves = Store.listed, iter([compact])

    def moved(own: Store, folder: str, suffix: str) -> list[str]:
        paths = listing(own, folder, suffix)
        if folder == "rows":
            for move in moves:
                move(Quiet(tmp_path))
        return paths

    monkeypatch.setattr(Store, "listed", moved)
    assert clear(store, grace=0.0).certificates == 0
    assert [store.certificate(row) for row in rows] == texts


def test_a_store_that_another_process_is_making_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f".{MARKER}.12-ab.tmp").write_bytes(b"")
    Store(tmp_path)
    sizes = folder.file_sizes

    def made_meanwhile(place: Path) -> dict[str, int]:
        monkeypatch.undo()
        Store(place).add([row_of(0)])
        return sizes(place)

    monkeypatch.setattr(folder, "file_sizes", made_meanwhile)
    assert Store(tmp_path).rows([row_of(0).question]) == [row_of(0)]


def test_other_folders_and_versions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"expected a store or an empty folder"):
        Store(tmp_path)
    with pytest.raises(ConfigError, match="found a file"):
        Store(tmp_path / "photo.jpg")
    other = tmp_path / "other"
    Store(other).add([row_of(0)])
    (other / MARKER).write_text('{"format": "mapspace-store-2"}')
    with pytest.raises(ConfigError, match=r"expected a store of format 'mapspace-store-1', got"):
        Store(other)
    (other / MARKER).write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        Store(other)


def test_a_store_that_cannot_be_written_says_so_and_nothing_fails(tmp_path: Path) -> None:
    store = Quiet(tmp_path / "store")
    store.add([row_of(0)])
    (tmp_path / "store" / NEW / row_of(1).question).write_text("a file in its place")
    assert not store.add([row_of(1)])
    assert len(store.lines) == 1
    assert "nothing is kept" in store.lines[0]


def test_which_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen() is None  # as in all tests
    monkeypatch.setenv("MAPSPACE_STORE", str(tmp_path / "shared"))
    shared = chosen()
    assert shared is not None
    assert shared.place == tmp_path / "shared"
    assert not shared.place.exists()  # before anything is kept there
    assert chosen(False) is None
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MAPSPACE_STORE", "~/at home")
    home = chosen()
    assert home is not None
    assert home.place == tmp_path / "at home"
    monkeypatch.setenv("MAPSPACE_STORE", "")
    assert chosen() is None
    monkeypatch.delenv("MAPSPACE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    own = chosen()
    assert own is not None
    assert own.place == own_folder() == tmp_path / "data" / "mapspace" / "mapspace-store-1"
    # Where the user's own cannot be had, commands run without one.
    said: list[str] = []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert chosen(say=said.append) is None
    assert len(said) == 1


def test_a_store_in_a_bucket(bucket: RemotePath) -> None:
    store = Quiet(bucket / "store")
    store.add([row_of(number) for number in range(3)], ["{}"])
    store.add([row_of(number) for number in range(3, 70)])
    assert numbers(store) == list(range(70))
    store.remove([row_of(1).id])
    done = clear(store, grace=0.0)
    assert (done.removed, done.certificates) == (1, 1)
    assert numbers(store) == [0, *range(2, 70)]
    assert not store.lines


def test_what_another_one_clears_away_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Quiet(tmp_path)
    store.add([row_of(number) for number in range(3)])
    store.remove([row_of(1).id])
    (listed,) = (tmp_path / "removed").iterdir()
    clear(store)  # the row is gone, and the file that says so stays for a while
    listing, aging = Store.listed, compaction.file_ages

    def vanishes(own: Store, folder: str, suffix: str) -> list[str]:
        paths = listing(own, folder, suffix)
        return [*paths, "removed/ghost.json"] if folder == "removed" else paths

    def old(folder: Path) -> dict[str, float]:
        return {**aging(folder), **({"ghost.json": 1e9} if folder.name == "removed" else {})}

    monkeypatch.setattr(Store, "listed", vanishes)
    monkeypatch.setattr(compaction, "file_ages", old)
    clear(store, grace=0.0)
    assert not listed.exists()
    assert numbers(store) == [0, 2]
    assert not store.lines


WRITER = """
import sys
import time
sys.path[:0] = [{root!r}, {tests!r}]
from mapspace.storage import place
from store_rows import Quiet, row_of
store = Quiet(place(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    assert store.add([row_of(number)])
    time.sleep(0.02)
    print(number, flush=True)
"""
COMPACTOR = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from mapspace.storage import place
from orchestrator.store import compaction
from store_rows import Quiet
compaction.SMALL_FILES = 2
store = Quiet(place(sys.argv[1]))
print("ready", flush=True)
while True:
    compaction.clear(store)
    assert not store.lines, store.lines
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    code = code.format(root=str(ROOT), tests=str(SUPPORT))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_writers_and_compactions_at_once_some_killed(tmp_path: Path) -> None:
    """Every row whose writer said that it is there, is there."""
    _write_and_compact(tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))


def test_rows_of_a_bucket_that_are_moved_while_they_are_read_are_read_where_they_are(
    bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Quiet(bucket)
    content = parquet_bytes([row_of(0)])
    store.write_parquet(content)
    moved: list[Any] = []
    opened = parquet.opened

    def hasty(file: Any) -> Any:
        source = opened(file)
        if not moved:
            moved.append(store.write_parquet(content))
            file.unlink()
        return source

    monkeypatch.setattr(parquet, "opened", hasty)
    assert numbers(store) == [0]
    assert moved
    assert not store.lines


@pytest.mark.slow
def test_many_writers_and_compactions_of_a_store_in_a_bucket(bucket: RemotePath) -> None:
    """The same through the S3 API, and `results gc` by the command meanwhile."""
    _write_and_compact(bucket / "store", command=True)


def _write_and_compact(where: Path | RemotePath, command: bool = False) -> None:
    rng = random.Random(time.time_ns())
    compactors = [start(COMPACTOR, where) for _ in range(2)]
    for process in compactors:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    writers = [start(WRITER, where, 100 * part, 100 * part + 40) for part in range(3)]
    until = time.monotonic() + (120 if command else 30)
    gc = [sys.executable, "-m", "orchestrator", "results", "gc", "--store", str(where)]
    while any(writer.poll() is None for writer in writers) and time.monotonic() < until:
        if command:
            done = subprocess.run(gc, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
        time.sleep(rng.random() * 0.2)
        victim = rng.randrange(2)
        compactors[victim].send_signal(signal.SIGKILL)
        compactors[victim].communicate()
        compactors[victim] = start(COMPACTOR, where)
        if rng.random() < 0.3 and writers[0].poll() is None:
            writers[0].send_signal(signal.SIGKILL)
    said: list[int] = []
    for writer in writers:
        out, error = writer.communicate(timeout=60)
        assert not error or writer is writers[0], error
        said += map(int, out.split())
    for process in compactors:
        process.kill()
        error = process.communicate()[1]
        assert "Traceback" not in error, error
    store = Quiet(where)
    there = numbers(store)
    assert set(said) <= set(there)
    assert len(there) == len(set(there))
    clear(store, grace=0.0)
    assert numbers(store) == there
    assert not store.lines


def certified(store: Store, count: int) -> tuple[list[Row], list[str]]:
    """Rows that name a certificate each, kept, and the certificates' texts."""
    texts = [json.dumps({"certificate": number}) for number in range(count)]
    names = [f"{content_id(text.encode())}.json" for text in texts]
    rows = [row_of(number, certificate=name) for number, name in enumerate(names)]
    assert store.add(rows, texts)
    return rows, texts


def test_every_row_of_a_parquet_file_keeps_its_certificate(tmp_path: Path) -> None:
    store = Quiet(tmp_path / "store")
    rows, texts = certified(store, 3)
    compact(store)
    assert clear(store, grace=0.0).certificates == 0
    assert [store.certificate(row) for row in rows] == texts


def test_a_certificate_with_a_flipped_bit_is_damaged(tmp_path: Path) -> None:
    store = Quiet(tmp_path / "store")
    (row,), (text,) = certified(store, 1)
    file = tmp_path / "store" / folder.CERTIFICATES / str(row.certificate)
    for place in range(len(text)):
        content = bytearray(text.encode())
        content[place] ^= 1
        file.write_bytes(bytes(content))
        with pytest.raises(DataError, match="its content is not what its name says"):
            store.certificate(row)


def test_a_store_that_cannot_be_brought_together_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing fails: the next search tries again."""
    store = Quiet(tmp_path)
    store.add([row_of(1)])
    monkeypatch.setattr(compaction, "CROWDED", 2)
    failing: list[Exception] = [OSError("no room"), DataError("it is damaged")]

    def fails(store: Store) -> None:
        raise failing.pop(0)

    monkeypatch.setattr(compaction, "compact", fails)
    compaction.tidy(store)
    assert len(failing) == 2, "one folder is no crowd"
    store.add([row_of(2)])
    for said in ("no room", "it is damaged"):
        compaction.tidy(store)
        assert store.lines[-1] == f"{tmp_path}: its rows cannot be brought together: {said}"
    monkeypatch.setattr(compaction, "is_installed", lambda name: False)
    compaction.tidy(store)
    assert not failing


def test_small_files_crowd_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Quiet(tmp_path)
    for number in range(2):
        store.write_parquet(parquet_bytes([row_of(number)]))
    (size,) = {path.stat().st_size for path in (tmp_path / ROWS).iterdir()}
    monkeypatch.setattr(compaction, "SMALL_FILES", 2)
    for most, smallest, left in ((3, size + 1, 2), (2, size, 2), (2, size + 1, 1)):
        monkeypatch.setattr(compaction, "CROWDED_SMALL", most)
        monkeypatch.setattr(compaction, "SMALL_BYTES", smallest)
        compaction.tidy(store)
        assert len(list((tmp_path / ROWS).iterdir())) == left
    assert numbers(store) == [0, 1]


def test_a_store_that_cannot_be_read_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Quiet(tmp_path)
    store.add([row_of(1)])

    def fails(*_: object) -> list[str]:
        raise PermissionError("not yours")

    monkeypatch.setattr(Store, "listed", fails)
    assert store.rows([row_of(1).question]) == []
    assert store.lines == [f"{tmp_path}: nothing is taken from it: not yours"]
    vanished: list[object] = []

    def goes(*_: object) -> list[str]:
        vanished.append(_)
        raise FileNotFoundError

    monkeypatch.setattr(Store, "removed", goes)
    assert store.rows([row_of(1).question]) == []
    assert store.lines[-1] == f"{tmp_path}: nothing is taken from it: its files keep changing."
    assert len(vanished) == folder.ATTEMPTS


def test_a_folder_that_keeps_vanishing_is_no_endless_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Quiet(tmp_path)
    tried: list[object] = []

    def gone(path: Any, content: bytes) -> None:
        tried.append(path)
        raise FileNotFoundError(2, "gone")

    store.begin()
    monkeypatch.setattr(folder, "write_atomically", gone)
    assert not store.add([row_of(1)])
    assert len(tried) == folder.ATTEMPTS
    assert store.lines[-1].endswith(": its folder keeps vanishing.")


def test_questions_outside_a_files_own_are_not_read(tmp_path: Path) -> None:
    asked = sorted(row_of(number).question for number in range(9))
    inside = [row for row in map(row_of, range(9)) if row.question in asked[2:7]]
    file = tmp_path / "some.parquet"
    file.write_bytes(parquet_bytes(inside))
    for first, stop, count in ((0, 2, 0), (7, 9, 0), (0, 3, 1), (6, 9, 1), (2, 7, 5), (0, 9, 5)):
        rows = list(parquet.rows_in(file, asked[first:stop]))
        assert len(rows) == count
        assert {row.question for row in rows} <= set(asked[first:stop])
        assert len(list(parquet.row_groups(file, asked[first:stop]))) == (count > 0)


def test_a_row_is_named_as_by_the_version_that_wrote_it() -> None:
    """Its name is the hash of all it says, what nobody said included: else it would be damaged."""
    row = row_of(0)
    told = {key: value for key, value in row.model_dump().items() if key not in REQUIRED}
    assert told == {
        "parameters": "{}", "seed": 0, "budget_seconds": None, "budget_iterations": None,
        "budget_gap": 0.0, "value": 1.5, "energy_pj": None, "latency_cycles": None,
        "proven": False, "lower_bound": None, "gap": None, "iterations": 0, "seconds": 0.0,
        "certificate": None, "payload": '{"number": 0}',
    }  # fmt: skip
    assert row.name == "c23afa680bfec9c8f5049a1cc3da86b7"
    assert row.id == 0xC23AFA680BFEC9C8 >> 1
