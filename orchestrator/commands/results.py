"""`mapspace results`: what the store holds, by SQL or by a few options; and what counts no more."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, get_args

import click

from mapspace.errors import ConfigError
from orchestrator.commands.options import OnceEach, OneOf, with_store
from orchestrator.schemas.json_text import json_text
from orchestrator.store.rows import Kind

if TYPE_CHECKING:
    from orchestrator.store.folder import Store
    from orchestrator.store.sql import Answer, Database

# What is shown of a result where no SQL says it: to people, where there are no more columns asked
# for, and how many rows; and to programs.
FEW, FEW_ROWS = "stored::DATE AS stored, kind, workload, accelerator, method, value, proven", 20
MOST_ROWS = 1000
# Letters of a name that such a table shows.
LONGEST = 22
SHOWN = (
    "stored, kind, workload, accelerator, objective, method, seed, budget_seconds, "
    "budget_iterations, value, proven, gap, seconds"
)
REMOVE, CLEAR = "rm", "gc"
MOST_DAYS = 36_500


def _days(_: click.Context, parameter: click.Parameter, given: str | None) -> float | None:
    """Days of an option, from none to a century."""
    try:
        days = None if given is None else float(given)
    except ValueError:
        days = -1.0
    if days is not None and not 0 <= days <= MOST_DAYS:
        raise click.BadParameter(f"expected 0 to {MOST_DAYS:,} days, got {given}.", param=parameter)
    return days


@click.command(cls=OnceEach)
@click.argument("question", required=False, metavar="[SQL|rm|gc]")
@click.option("--workload", help="Name, or a workload: the same one under other names, too.")
@click.option("--accelerator", help="Name of the machine.")
@click.option("--method", help="Name of the searcher.")
@click.option("--objective", help="What was minimised.")
@click.option(
    "--kind",
    type=OneOf(get_args(Kind)),
    help="Of result; run is a benchmark's, of a method.",
)
@click.option("--older", callback=_days, metavar="DAYS", help="Stored so many days ago or earlier.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"At most so many, the latest; else {FEW_ROWS}, as JSON or CSV {MOST_ROWS}.",
)
@click.option("--wide", is_flag=True, help="All columns that JSON has, however wide.")
@click.option("--all", "everything", is_flag=True, help="With rm: all results.")
@with_store
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, an object per row.")
def results(
    question: str | None,
    limit: int | None,
    wide: bool,
    everything: bool,
    store: Store | None,
    as_csv: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Answers SQL over the store's views: results, searches, proofs; or lists what options name.

    One SELECT statement, such as "SELECT workload, min(value) FROM searches GROUP BY workload".
    `rm` with options makes results count no more; `gc` brings files together and removes what is
    damaged or needed by nothing.
    """
    from orchestrator.store.compaction import clear
    from orchestrator.store.sql import Database

    if store is None:
        raise ConfigError("results: there is no store (--no-store, or MAPSPACE_STORE is off).")
    chosen = {name: value for name, value in options.items() if value is not None}
    if as_csv and as_json:
        raise click.UsageError("Expected either --csv or --json, got both.")
    if everything and question != REMOVE:
        raise click.UsageError("--all is for rm.")
    if question == CLEAR:
        _refuse(chosen, limit, CLEAR)
        done = clear(store)
        click.echo(json_text(done.to_dict()) if as_json else _cleared(done.to_dict(), store))
        return
    if question == REMOVE:
        if bool(chosen) == everything:
            raise click.UsageError("rm: expected options that name results, or --all.")
        _refuse({}, limit, REMOVE)
        ids = [row[0] for row in _listed(Database(store), chosen, "id").rows]
        if ids:
            store.remove(ids)
        text = f"{store.place}: {len(ids):,} removed; `mapspace results gc` frees their space"
        click.echo(json_text({"removed": len(ids)}) if as_json else text)
        return
    database = Database(store)
    if question is None:
        # A simulator has thousands, which would hide everything else.
        chosen = {"no_kind": "evaluation", **chosen} if "kind" not in chosen else chosen
        to_people = not (as_json or as_csv)
        columns = FEW if to_people and not wide else SHOWN
        most = limit or (FEW_ROWS + 1 if to_people else MOST_ROWS)
        answer = _listed(database, chosen, columns, most)
    else:
        _refuse(chosen, limit, "SQL")
        answer = database.ask(question)
    if as_json:
        click.echo(json_text(answer.objects()))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        click.echo(_table(answer, wide, None if question else limit or FEW_ROWS))


def _refuse(chosen: Mapping[str, Any], limit: int | None, what: str) -> None:
    given = [*chosen, *(["limit"] if limit is not None else [])]
    if given:
        raise click.UsageError(f"{what} takes no --{given[0]}.")


def _listed(
    database: Database, chosen: Mapping[str, Any], columns: str, limit: int | None = None
) -> Answer:
    """The results that options name, the latest first."""
    conditions, values = ["true"], []
    for name, value in chosen.items():
        if name == "workload":
            conditions.append("(workload = ? OR problem = ?)")
            values += [value, _problem(value)]
        elif name == "no_kind":
            conditions.append("kind <> ?")
            values.append(value)
        elif name == "older":
            conditions.append("stored <= make_timestamp(?)")
            values.append(int((time.time() - value * 86400) * 1e6))
        else:
            conditions.append(f"{name} = ?")
            values.append(value)
    where = " AND ".join(conditions)
    most = "" if limit is None else f" LIMIT {limit}"
    sql = f"SELECT {columns} FROM results WHERE {where} ORDER BY results.stored DESC{most}"
    return database.ask(sql, values)


def _problem(text: str) -> str:
    """The hash of a workload without its names; of a text that is none, itself."""
    from costmodel.problems.workloads import workload
    from orchestrator.store.canonical import canonical

    try:
        return canonical(workload(text)).hash
    except ConfigError:
        return text


def _table(answer: Answer, wide: bool, most: int | None) -> str:
    """A table for people: all of it, or the first rows and that there are more."""
    from orchestrator.report.document import LEFT, RIGHT, Table
    from orchestrator.report.text_table import table_lines

    rows = answer.rows[:most]
    texts = [tuple(map(_text, row)) for row in rows]
    if most is not None and not wide:
        texts = [tuple(map(_cut, row)) for row in texts]
    numbers = [
        all(isinstance(row[i], int | float | None) for row in rows)
        for i in range(len(answer.columns))
    ]
    formats = tuple(RIGHT if number else LEFT for number in numbers)
    table = Table("results", "", answer.columns, formats, texts)
    count, more = len(rows), len(answer.rows) > len(rows)
    told = f"{count:,} row{'' if count == 1 else 's'}"
    told += ", the latest: --limit shows more, --wide all columns" if more else ""
    return "\n".join([*table_lines(table, width=10_000 if wide else None), told])


def _cut(text: str) -> str:
    """A name that fits beside others: those of machines of a grid are sentences."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return str(value)


def _cleared(done: Mapping[str, int], store: Store) -> str:
    said = ", ".join(f"{name} {count:,}" for name, count in done.items() if count)
    return f"{store.place}: {said or 'nothing to do'}"
