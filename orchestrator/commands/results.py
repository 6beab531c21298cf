"""`mapspace results`: what the store holds, by SQL or by a few options; and what counts no more."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mapspace.errors import ConfigError
from orchestrator.commands.options import OnceEach, with_store
from orchestrator.schemas.json_text import json_text

if TYPE_CHECKING:
    from orchestrator.store.folder import Store
    from orchestrator.store.sql import Answer, Database

# What is shown of a result where no SQL says it.
SHOWN = (
    "stored, kind, workload, accelerator, objective, method, seed, budget_seconds, "
    "budget_iterations, value, proven, gap, seconds"
)
REMOVE, CLEAR = "rm", "gc"


@click.command(cls=OnceEach)
@click.argument("question", required=False, metavar="[SQL|rm|gc]")
@click.option("--workload", help="Name, or a workload: the same one under other names, too.")
@click.option("--accelerator", help="Name of the machine.")
@click.option("--method", help="Name of the searcher.")
@click.option("--objective", help="What was minimised.")
@click.option("--kind", help="search, run (of a benchmark), proof, front, network, evaluation.")
@click.option("--older", type=float, metavar="DAYS", help="Stored so many days ago or earlier.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the latest; else 1000.")
@click.option("--all", "everything", is_flag=True, help="With rm: all results.")
@with_store
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, an object per row.")
def results(
    question: str | None,
    limit: int | None,
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
        answer = _listed(database, chosen, SHOWN, limit or 1000)
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
        click.echo(_table(answer))


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
    from costmodel.workloads import workload
    from orchestrator.store.canonical import canonical

    try:
        return canonical(workload(text)).hash
    except ConfigError:
        return text


def _table(answer: Answer) -> str:
    from orchestrator.report.document import LEFT, RIGHT, Table
    from orchestrator.report.text_table import table_lines

    texts = [tuple(map(_text, row)) for row in answer.rows]
    numbers = [
        all(isinstance(row[i], int | float | None) for row in answer.rows)
        for i in range(len(answer.columns))
    ]
    formats = tuple(RIGHT if number else LEFT for number in numbers)
    lines = table_lines(Table("results", "", answer.columns, formats, texts))
    count = len(answer.rows)
    return "\n".join([*lines, f"{count:,} row{'' if count == 1 else 's'}"])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return str(value)


def _cleared(done: Mapping[str, int], store: Store) -> str:
    said = ", ".join(f"{name} {count:,}" for name, count in done.items() if count)
    return f"{store.place}: {said or 'nothing to do'}"
