"""`mapspace evaluate`: scores mapping records in bulk, as a stream."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from costmodel.errors import ConfigError, DataError

MODELS: Mapping[str, str] = MappingProxyType(
    {
        "loopnest": "costmodel.loopnest:LoopNestModel",
        "maestro": "costmodel.maestro.model:MaestroModel",
        "maestro-corrected": "costmodel.maestro.model:corrected_model",
    }
)

# How each model scores a list of records.
SCORES: Mapping[str, str] = MappingProxyType(
    {
        "loopnest": "costmodel.records:score",
        "maestro": "costmodel.maestro.records:score_records",
        "maestro-corrected": "costmodel.maestro.records:score_records",
    }
)

# Records scored in one call: enough to fill batches, few enough to hold in memory.
CHUNK = 2048
PROGRESS_RECORDS = 20_000


def cost_model(name: str) -> Any:
    """The cost model under a name.

    Raises:
        ConfigError: it is unknown; the message lists the known ones.
    """
    if name not in MODELS:
        raise ConfigError(f"Cost model {name!r} is unknown; known: {', '.join(MODELS)}.")
    return _imported(MODELS[name])()


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def evaluate_file(model_name: str, source: Path, output: Path | None) -> tuple[int, int]:
    """Scores a file of mapping records.

    Args:
        model_name: a key of `MODELS`.
        source: JSON lines, compressed if the name ends in `.gz`.
        output: where to write the records with their `result`, which also names the model and its
            version; compressed likewise; None: standard output. It appears whole or not at all.

    Returns:
        How many records were scored, and how many of them are infeasible.

    Raises:
        ConfigError: an unknown model, or a record that cannot be read: `file:line: why`.
        DataError: the file is damaged.
    """
    model = cost_model(model_name)
    score = _imported(SCORES[model_name])
    provenance = {"model": model.name, "model_version": model.version}
    if not source.is_file():
        raise ConfigError(f"{source}: there is no such file.")
    scored = infeasible = 0
    with _written(output) as out:
        for records in _chunks(source):
            try:
                results = score([record for _, record in records], model)
            except ConfigError as error:
                raise _located(source, [line for line, _ in records], error) from None
            for record in results:
                record["result"] |= provenance
                out.write(json.dumps(record, separators=(",", ":")) + "\n")
                infeasible += "status" in record["result"]
            if (scored + len(results)) // PROGRESS_RECORDS > scored // PROGRESS_RECORDS:
                print(f"{scored + len(results):,} records", file=sys.stderr, flush=True)
            scored += len(results)
    return scored, infeasible


def _located(source: Path, lines: list[int], error: ConfigError) -> ConfigError:
    """`score` counts records from 0 within its call; people count lines of the file from 1."""
    match = re.fullmatch(r"record (\d+): (.*)", str(error), flags=re.DOTALL)
    if match is None:
        return ConfigError(f"{source}: {error}")
    return ConfigError(f"{source}:{lines[int(match[1])]}: {match[2]}")


def _chunks(source: Path) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    chunk: list[tuple[int, dict[str, Any]]] = []
    for number, text in _lines(source):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{source}:{number}: not JSON: {error}.") from None
        chunk.append((number, record))
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _lines(source: Path) -> Iterator[tuple[int, str]]:
    opener = gzip.open if source.suffix == ".gz" else open
    try:
        with opener(source, "rt", encoding="utf-8") as file:
            yield from enumerate(file, start=1)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{source}: the file is damaged ({error}).") from error


@contextmanager
def _written(output: Path | None) -> Iterator[IO[str]]:
    """A text stream that becomes the output file only when the block succeeds."""
    if output is None:
        yield sys.stdout
        return
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: the folder {output.parent} does not exist.")
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    opener = gzip.open if output.suffix == ".gz" else open
    try:
        with opener(partial, "wt", encoding="utf-8") as file:
            yield file
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
