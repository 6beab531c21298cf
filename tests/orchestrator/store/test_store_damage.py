"""Damaged and foreign files of a store are named, left out, and never an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_rows import Quiet, found, numbers, row_of

from mapspace import parquet_parts
from orchestrator.store import compaction, parquet
from orchestrator.store.compaction import clear, compact
from orchestrator.store.folder import NEW, ROWS
from orchestrator.store.parquet import parquet_bytes


def test_damaged_and_foreign_files_are_named_and_left_out(tmp_path: Path) -> None:
    store = Quiet(tmp_path)
    for number in range(2):
        store.add([row_of(number)])
    compact(store)
    for number in range(2, 4):
        store.add([row_of(number)])
    (file,) = (tmp_path / ROWS).iterdir()
    whole = file.read_bytes()
    single = tmp_path / NEW / row_of(2).question / f"{row_of(2).name}.json"
    single.write_bytes(single.read_bytes().replace(b"3.5", b"3.4"))
    pipe = single.with_name(f"{'0' * 16}.json")
    os.mkfifo(pipe)
    (tmp_path / ROWS / "holiday.txt").write_text("x")
    (tmp_path / ROWS / "other.parquet").write_bytes(whole[: len(whole) // 2])
    assert numbers(store) == [0, 1, 3]
    assert len(store.lines) == 4
    for name in (single.name, pipe.name, "holiday.txt", "other.parquet"):
        assert sum(name in line for line in store.lines) == 1
    assert all("\n" not in line for line in store.lines)
    # Bringing rows together leaves what it cannot read where it is; clearing removes it.
    compact(store)
    assert single.exists()
    done = clear(store)
    assert done.damaged == 3
    assert numbers(Quiet(tmp_path)) == [0, 1, 3]
    assert not single.exists()
    assert (tmp_path / ROWS / "holiday.txt").exists()


@pytest.mark.parametrize("flipped", [0x01, 0x02, 0xFF])
def test_a_parquet_file_whose_end_is_damaged_is_named(tmp_path: Path, flipped: int) -> None:
    """Arrow skips rows of some such files without a word, and of others ends the process."""
    Quiet(tmp_path).add([row_of(0)])
    compact(Quiet(tmp_path))
    (file,) = (tmp_path / ROWS).iterdir()
    whole = file.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    assert 0 < begin < len(whole) - 1000
    for position in range(begin, len(whole), 11):
        changed = bytearray(whole)
        changed[position] ^= flipped
        file.write_bytes(changed)
        store = Quiet(tmp_path)
        assert numbers(store) == []
        (line,) = store.lines
        assert file.name in line
    # One that a version wrote which put no hash into the name is read as it is.
    file.write_bytes(whole)
    file.rename(file.with_name(f"{'a' * 32}.parquet"))
    assert numbers(Quiet(tmp_path)) == [0]


def test_a_small_parquet_file_that_stands_for_much_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is equal is written once: such a file is named before its rows are written out."""
    store = Quiet(tmp_path)
    store.add([row_of(0)])
    monkeypatch.setattr(parquet_parts, "LARGEST_BINARY", 4 << 20)
    for rows, letters, said in ((1001, 1, "1,000 rows"), (900, 5000, "4,194,304 bytes")):
        monkeypatch.setattr(parquet, "ROW_GROUP", 10_000)
        content = parquet_bytes([row_of(1, payload="x" * letters)] * rows)
        monkeypatch.setattr(parquet, "ROW_GROUP", 1000)
        assert len(content) < 50_000
        store.write_parquet(content)
        assert numbers(store) == [0]
        assert f"expected at most {said} in a part" in store.lines[-1]


def test_many_small_parquet_files_are_brought_together_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CROWDED_SMALL", 9)
    store = Quiet(tmp_path)
    counts = []
    for part in range(9):
        store.add([row_of(number) for number in range(70 * part, 70 * part + 70)])
        compaction.tidy(store)
        counts.append(len(list((tmp_path / ROWS).iterdir())))
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8, 1]
    assert numbers(store) == list(range(300))
    assert not store.lines


def test_foreign_files_beside_folders_are_named(tmp_path: Path) -> None:
    """And is left alone; folders may be a disk's own."""
    Quiet(tmp_path).add([row_of(1)])
    foreign = tmp_path / "notes.txt", tmp_path / NEW / "notes.txt"
    for file in foreign:
        file.write_text("mine")
    (tmp_path / "lost+found").mkdir()
    store = Quiet(tmp_path)
    assert found(store, 1) == row_of(1)
    assert store.lines == [
        f"{file}: is none of the store's files; it is left alone." for file in foreign
    ]
    clear(store)
    assert [file.read_text() for file in foreign] == ["mine", "mine"]


def test_a_flipped_bit_is_never_an_answer(tmp_path: Path) -> None:
    """Wherever it is: what is read is what was written, or nothing of that file."""
    Quiet(tmp_path).add([row_of(number) for number in range(70)])
    (file,) = (tmp_path / ROWS).iterdir()
    whole = file.read_bytes()
    questions = [row_of(number).question for number in range(70)]
    named = 0
    for position in range(3, len(whole), len(whole) // 80):
        content = bytearray(whole)
        content[position] ^= 4
        file.write_bytes(content)
        store = Quiet(tmp_path)
        rows = store.rows(questions)
        assert all(row == row_of(row.seed) for row in rows), position
        assert rows or store.lines
        named += not rows
    assert named > 40
