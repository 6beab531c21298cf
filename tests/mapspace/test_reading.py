"""Files of others are read within bounds: size, line, depth, digits, what aliases stand for."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from mapspace import bounded_reading
from mapspace.bounded_reading import check_file, json_lines, parse_json, read_bytes, read_json
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.storage import place
from mapspace.strict_yaml import PositiveNumber, Size, StrictModel, load_yaml, shown, validate


class Number(StrictModel):
    value: PositiveNumber


class Whole(StrictModel):
    value: Size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 200_000, "x: expected at most 100 levels of nesting."),
        ('{"a":' * 101 + "1" + "}" * 101, "x: expected at most 100 levels of nesting."),
        ("[NaN]", "x: not JSON: NaN is no number of JSON."),
        ("[-Infinity]", "x: not JSON: -Infinity is no number of JSON."),
        ("1" * 101, "x: not JSON: expected numbers of at most 100 digits."),
        ("1" * 5000, "x: not JSON: expected numbers of at most 100 digits."),
        ("{", "x: not JSON: "),
        (b"\xff", "x: is not UTF-8 text (byte 0)."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_json_that_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_json(text, "x")
    assert str(caught.value).startswith(message)
    with pytest.raises(DataError):
        parse_json(text, "x", DataError)


def test_json_that_is_read() -> None:
    deep = "[" * 100 + "]" * 100
    brackets = json.dumps({"text": '[{"\\' * 500, "many": [[]] * 500, "number": 10**99})
    for text in (deep, brackets):
        assert parse_json(text, "x") == json.loads(text)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading, "LARGEST_FILE", 100)
    path = tmp_path / "x.json"
    path.write_text(" " * 101)
    with pytest.raises(ConfigError, match=r"x\.json: expected at most 100 bytes\."):
        read_json(path)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_line_without_end_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bounded_reading, "LONGEST_LINE", 1000)
    path = tmp_path / name
    content = b"1\n\n2\n" + b" " * 1_000_000
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    lines = json_lines(path)
    assert [next(lines), next(lines)] == [(1, 1), (3, 2)]
    with pytest.raises(ConfigError, match=r":4: expected at most 1,000 bytes in a line\."):
        next(lines)


def test_a_damaged_archive_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n" * 1000)[:-10])
    with pytest.raises(DataError, match=r"x\.jsonl\.gz:\d+: the file is damaged"):
        list(json_lines(path))


def test_what_is_no_file_is_said_as_what_it_is(tmp_path: Path) -> None:
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    said = {
        pipe: "found a pipe",
        loop: "Too many levels of symbolic links",
        tmp_path / "nope": "there is no such file",
        tmp_path: "Is a directory",
        tmp_path / "a\0b": "is no path",
        tmp_path / "\ud800": "is no path",
    }
    for path, why in said.items():
        with pytest.raises(ConfigError, match=why):
            check_file(path)
    with pytest.raises(DataError, match=r"loop: cannot be read: Too many levels"):
        list(json_lines(loop))
    for path in [*said][-2:]:
        with pytest.raises(ConfigError, match="is no path"):
            place(str(path))
        with pytest.raises(ConfigError, match="is no path"):
            place(path)


def test_all_that_is_wrong_is_said() -> None:
    class Part(StrictModel):
        name: str
        size: PositiveNumber
        other: int | str = 0

    class All(StrictModel):
        parts: Annotated[tuple[Part, ...], Field(min_length=1)]
        count: int = 0
        many: dict[str, int] | None = None

    def said(data: object) -> str:
        with pytest.raises(ConfigError) as caught:
            validate(All, data, "x")
        return str(caught.value)

    parts = [{"name": "a", "siez": 1}, {"name": "b", "size": 1e-300, "other": []}, {"name": "c"}]
    assert said({"parts": parts, "count": "many", "mayn": 0}) == (
        "x: parts[a].siez: unknown key; did you mean size? Known keys: name, size, other. "
        "mayn: unknown key; did you mean many? Known keys: parts, count, many. "
        "parts[b].size: expected at least 1e-30, got 1e-300. "
        "parts[b].other: expected a whole number, got []. "
        "parts[c]: missing size. Known keys: name, size, other. "
        "count: expected a whole number, got 'many'."
    )
    many = {f"key {number}": "x" for number in range(100)}
    assert said({"parts": [{"name": "a", "size": 1}], "many": many}).endswith("And 92 more.")


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 500, r", line 1, column 103: expected at most 100 levels of nesting\."),
        ("- " * 50_000, r": expected at most 100 levels of nesting\."),
        (LAUGHS, r", line 6, .*: expected at most 200,000 values"),
        ("a: &a [*a]\n", r", line 1, column 8: the alias \*a contains itself\."),
        ("a: " + ":".join(["1"] * 50_000), "expected a number of at most 100 characters"),
        ("a: 0x" + "f" * 101, "expected a number of at most 100 characters"),
    ],
    ids=["brackets", "dashes", "laughs", "itself", "sixties", "hex"],
)
def test_yaml_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).count(str(path)) == 1
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith("..")


def test_a_quoted_number_of_any_length_is_text() -> None:
    for model in (Number, Whole):
        for digits in (100, 309, 310, 5000):
            with pytest.raises(ConfigError, match=r"^x: value: expected a .*number, got '1111"):
                validate(model, {"value": "1" * digits}, "x")


def test_what_holds_itself_is_shown() -> None:
    endless: list[object] = []
    endless.append(endless)
    wide = [endless] * 10
    for _ in range(40):
        wide = [wide] * 10  # type: ignore[list-item]
    for value in (endless, wide, "x" * 10**6, [10**90] * 1000):
        assert len(shown(value)) < 70


def test_a_path_in_a_message_is_one_short_line() -> None:
    class Deep(StrictModel):
        part: dict[str, Number]

    with pytest.raises(ConfigError) as caught:
        validate(Deep, {"part": {"two\nlines" + "x" * 1000: {"value": "?"}}}, "x")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    file = tmp_path / "plain.jsonl.gz"
    file.write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=r"plain.jsonl.gz: expected a gzip file, as its name"):
        list(json_lines(file))
    file.write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert list(json_lines(file)) == [(1, {"a": 1})]


def readers() -> dict[str, Callable[[Path], object]]:
    """What reads a file that somebody else may have put there, by name."""
    from orchestrator.pool.event_log import read_events
    from orchestrator.runs.checkpoints import load_state
    from orchestrator.store.rows import read_row
    from surrogate.shards import Manifest

    return {
        "bytes": read_bytes,
        "text": bounded_reading.read_text,
        "JSON": read_json,
        "JSON lines": lambda path: list(json_lines(path)),
        "YAML": load_yaml,
        "a row": read_row,
        "events": read_events,
        "a state": load_state,
        "a data set": lambda path: Manifest.read(path.parent),
    }


@pytest.mark.parametrize("name", readers())
@pytest.mark.parametrize("what", ["pipe", "device", "loop", "folder", "large"])
def test_what_is_no_file_of_a_bounded_size_is_one_line(
    tmp_path: Path, name: str, what: str
) -> None:
    """Nobody waits for a pipe, reads a device, or reads more than the size allows."""
    path = tmp_path / "manifest.json"
    if what == "pipe":
        os.mkfifo(path)
    elif what in ("device", "loop"):
        path.symlink_to("/dev/zero" if what == "device" else path)
    elif what == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2 << 40)
    with pytest.raises(MapspaceError) as caught:
        readers()[name](path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith("..")


def test_a_pipe_between_two_names_keeps_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in (tmp_path, tmp_path / "pipe"):
        if not path.exists():
            os.mkfifo(path)
        for _ in range(5):
            with pytest.raises(DataError):
                read_bytes(path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_empty_lines_have_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bounded_reading, "MOST_BLANK", 1000)
    path = tmp_path / name
    content = b"1\n" + b"\n" * 1001
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    with pytest.raises(ConfigError, match=r":1002: expected at most 1,000 bytes of empty lines\."):
        list(json_lines(path))


def test_an_archive_that_unpacks_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_reading, "LARGEST_UNPACKED", 1000)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n" * 501))
    with pytest.raises(ConfigError, match=r":501: expected at most 1,000 bytes, unpacked\."):
        list(json_lines(path))


def test_more_values_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading, "MOST_VALUES", 1000)
    assert len(parse_json("[" + "[]," * 498 + "1]", "x")) == 499
    with pytest.raises(ConfigError, match=r"^x: expected at most 1,000 values\.$"):
        parse_json("[" + "[]," * 500 + "1]", "x")
