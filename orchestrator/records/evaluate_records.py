"""`mapspace evaluate`: scores mapping records in bulk, as a stream."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from costmodel.maestro.dataflow_records import read_mappings
from costmodel.models import COST_MODELS, RecordScorer, cost_model_entry
from mapspace.bounded_reading import check_file, json_lines, read_json
from mapspace.errors import ConfigError
from mapspace.storage import whole_file
from mapspace.strict_yaml import load_yaml
from orchestrator.records.stored_evaluations import read_or_score
from orchestrator.store.evaluations import INFEASIBLE
from orchestrator.store.folder import Store

# Records scored in one call: enough to fill batches, few enough to hold in memory.
CHUNK = 2048
PROGRESS_RECORDS = 20_000


def record_scorer(name: str) -> RecordScorer:
    """How the cost model under a name scores records.

    Raises:
        ConfigError: it is unknown, or scores none.
    """
    found = cost_model_entry(name).records
    if found is None:
        raise ConfigError(f"Cost model {name} scores no mapping records; see mapspace list models.")
    return found


class Counts(NamedTuple):
    """How many records were scored, how many of them are infeasible, and how many failed."""

    scored: int
    infeasible: int
    failed: int


def evaluate_file(
    model_name: str,
    source: Path,
    output: Path | None,
    *,
    hardware: Path | None = None,
    lenient: bool = False,
    says_store: bool = False,
    **options: Any,
) -> Counts:
    """Scores a file of mapping records.

    Args:
        model_name: a key of `costmodel.models.COST_MODELS`.
        source: JSON lines, compressed if the name ends in `.gz`.
        output: where to write the records with their `result`, which also names the model and its
            version; compressed likewise; None: standard output. It appears whole or not at all.
        hardware: MAESTRO's hardware file, where the source is one of its mapping files (`.m`).
        lenient: whether to leave out layers of that whose dataflow has no counterpart, and list
            them on standard error.
        says_store: whether results of models that ask no store say `from_store`, too.
        options: as `scorer` takes them.

    Returns:
        How many records there were, and what came of them.

    Raises:
        ConfigError: an unknown model, or a record that cannot be read: `file:line: why`.
        DataError: the file is damaged.
    """
    count = infeasible = failed = 0
    score = scorer(model_name, **options)
    listed = read_records(source) if hardware is None else _of_maestro(source, hardware, lenient)
    with _written(output) as out:
        for results in _scored(score, source, listed):
            for record in results:
                if says_store:
                    record["result"].setdefault("from_store", False)
                out.write(json.dumps(record, separators=(",", ":")) + "\n")
                found = record["result"]
                # Of a simulator any other reason is a failure, which may be one of this time.
                fails = model_name == "command" and found.get("why", INFEASIBLE) != INFEASIBLE
                failed += fails
                infeasible += not fails and ("status" in found or found.get("valid") is False)
            if (count + len(results)) // PROGRESS_RECORDS > count // PROGRESS_RECORDS:
                print(f"{count + len(results):,} records", file=sys.stderr, flush=True)
            count += len(results)
    return Counts(count, infeasible, failed)


def scored(model_name: str, source: Path, **options: Any) -> Iterator[list[dict[str, Any]]]:
    """The records of a file with their `result`, in chunks; raises what `evaluate_file` does."""
    return _scored(scorer(model_name, **options), source, read_records(source))


def scorer(
    model_name: str, *, store: Store | None = None, **options: Any
) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """What adds to mapping records their `result`, with the name and version of the model.

    Args:
        model_name: a key of `costmodel.models.COST_MODELS`.
        store: where results of models that measure are read and kept; None: nowhere.
        options: of the model: `link_transfers`, whether neighbours below a level hand words to each
            other; `counting` of remainders, `timeloop` or `true`; `simulator`, the file that says
            how a simulator is called. None asks for nothing.

    Raises:
        ConfigError: an unknown model, or one without such an option; later, a record that cannot
            be read, by its index.
    """
    entry = record_scorer(model_name)
    asked = {key: value for key, value in options.items() if value is not None}
    for name in asked.keys() - set(entry.options):
        what = name.replace("_", " ")
        has = next((other for other, options in _options().items() if name in options), "none")
        raise ConfigError(f"Cost model {model_name} has no {what}; {has} has.")
    model = entry.model(**asked)
    provenance = {"model": model.name, "model_version": model.version}

    def scores(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = entry.score(records, model)
        for record in found:
            record["result"] |= provenance
        return found

    if store is not None and cost_model_entry(model_name).measured:
        return read_or_score(scores, model_name, model, store)
    return scores


def _of_maestro(source: Path, hardware: Path, lenient: bool) -> Iterator[tuple[int, Any]]:
    records, left_out = read_mappings(source, hardware, lenient=lenient)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    return iter(enumerate(records, start=1))


def _options() -> dict[str, tuple[str, ...]]:
    """What every cost model that scores records can be asked for."""
    found = {name: cost_model_entry(name).records for name in COST_MODELS}
    return {name: scorer.options for name, scorer in found.items() if scorer is not None}


def _scored(
    score: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    source: Path,
    listed: Iterable[tuple[int, Any]],
) -> Iterator[list[dict[str, Any]]]:
    check_file(source)
    for records in _chunks(listed):
        try:
            yield score([record for _, record in records])
        except ConfigError as error:
            raise _located(source, [line for line, _ in records], error) from None


def _located(source: Path, lines: list[int], error: ConfigError) -> ConfigError:
    """`score` counts records from 0 within its call; people count lines of the file from 1."""
    match = re.fullmatch(r"record (\d+): (.*)", str(error), flags=re.DOTALL)
    if match is None:
        return ConfigError(f"{source}: {error}")
    return ConfigError(f"{source}:{lines[int(match[1])]}: {match[2]}")


def read_records(source: Path) -> Iterator[tuple[int, Any]]:
    """The records of a file, each with its line.

    Args:
        source: one record as YAML or JSON (`.yaml`, `.yml`, `.json`), else JSON lines.

    Raises:
        ConfigError: it cannot be read; the file is named.
        DataError: it is damaged.
    """
    if source.suffix in (".yaml", ".yml"):
        yield 1, load_yaml(source)
    elif source.suffix == ".json":
        yield 1, read_json(source)
    else:
        yield from json_lines(source)


def numbered_record(source: Path, number: int | None) -> dict[str, Any]:
    """One record of a file.

    Args:
        source: as `read_records` takes it.
        number: which one, from 1; None: the first.

    Raises:
        ConfigError: there is none, or it is no object; the file is named.
    """
    check_file(source)
    wanted = 1 if number is None else number
    for count, (_, record) in enumerate(read_records(source), start=1):
        if count == wanted:
            if not isinstance(record, dict):
                raise ConfigError(f"{source}: record {count}: expected an object.")
            return record
    raise ConfigError(f"{source}: expected at least {wanted} records.")


def _chunks(listed: Iterable[tuple[int, Any]]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    chunk: list[tuple[int, dict[str, Any]]] = []
    for number, record in listed:
        chunk.append((number, record))
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


@contextmanager
def _written(output: Path | None) -> Iterator[IO[str]]:
    """A text stream that becomes the output file only when the block succeeds."""
    if output is None:
        yield sys.stdout
        return
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: the folder {output.parent} does not exist.")
    opener = gzip.open if output.suffix == ".gz" else open
    with whole_file(output) as temporary, opener(temporary, "wt", encoding="utf-8") as file:
        yield file
