"""Files of others are read within bounds: size, line, depth, digits, what aliases stand for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mapspace import bounded_reading
from mapspace.bounded_reading import json_lines, parse_json, read_json
from mapspace.errors import ConfigError, DataError
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


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 50_000, r", line 1, column 103: expected at most 100 levels of nesting\."),
        ("- " * 50_000, r": expected at most 100 levels of nesting\."),
        (LAUGHS, r", line 7, .*: expected at most 1,000,000 values"),
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
