"""Results of a benchmark as they are kept beside the pages that show them.

What is kept is a run folder like any other, with its provenance, but small: of every curve those
entries alone that say what was best after so many queries. `mapspace report` reads it as any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from mapspace.errors import DataError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.benchmark.config import Benchmark
from orchestrator.comparison.results import Results, Run
from orchestrator.comparison.results_files import SUMMARY_FILE, load, save
from orchestrator.comparison.tables import seeds_text
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.runs.tables_file import TABLES_FILE, made_by

AFTER = (25, 50, 100, 200, 500, 1000, 2000, 5000)
"""After how many queries pages show the best so far."""
# Figures over the latency of a query begin with the first.
_KEPT = (1, 2, 5, 10, *AFTER)
# In a provenance: what computed the methods that were searched again, by label.
AGAIN = "searched_again"
# Of a provenance: what two runs of one experiment have in common.
_ASKED = ("model", "model_version", "accelerator", "workloads", "surrogates", "weights")
_UNSAID = ("kind", "name", "description", "proof_seconds", "searchers")


def keep(run: Place, folder: Place) -> None:
    """Writes what pages need of a run.

    Where results of the same experiment lie already, the run's methods take the place of theirs,
    and those that it does not have stay: a method that changed is searched again by itself.

    Args:
        run: the run folder: of a benchmark, of which `summary.json` and `curves.parquet` are
            written, or of another kind that has its tables as data, which are copied.
        folder: where to.

    Raises:
        DataError: there is no finished run of such a kind, or it asks something else than what
            is kept there.
    """
    if (run / TABLES_FILE).exists():
        make_folder(folder)
        write_atomically(folder / TABLES_FILE, (run / TABLES_FILE).read_bytes())
        return
    results = load(run)
    make_folder(folder)
    runs = [
        _thinned(run)
        for pair in product(results.searchers, results.workloads)
        for run in results.of(*pair)
    ]
    bounds = {name: replace(own, certificate=None) for name, own in results.bounds.items()}
    found = replace(results, runs=runs, bounds=bounds)
    if (folder / SUMMARY_FILE).exists():
        found = _put_among(load(folder), found)
    save(found, folder)


def _put_among(kept: Results, found: Results) -> Results:
    """Results that are kept, with methods that were searched again in place of theirs.

    Raises:
        DataError: they are of different experiments.
    """
    entries = {own["label"]: own for own in found.experiment["searchers"]}
    if {*kept.searchers} <= entries.keys():
        return found
    asked = [{**own.experiment, "searchers": None} for own in (kept, found)]
    # Not all follow a surrogate.
    both = [name for name in _ASKED if name in kept.provenance and name in found.provenance]
    asked += [{name: own.provenance[name] for name in both} for own in (kept, found)]
    apart = {
        name
        for mine, theirs in zip(asked[::2], asked[1::2], strict=True)
        for name in mine.keys() | theirs.keys()
        if name not in ("description", "proof_seconds") and mine.get(name) != theirs.get(name)
    }
    if apart:
        raise DataError(
            f"expected a run of the experiment whose results are kept there, got another in "
            f"{', '.join(sorted(apart))}."
        )
    theirs = [own for own in kept.experiment["searchers"] if own["label"] not in entries]
    order = load_experiment(find_experiment(str(kept.experiment["name"])), Benchmark).searchers
    place = {entry.label: number for number, entry in enumerate(order)}
    # A method that the experiment does not have comes last.
    everyone = [*theirs, *entries.values()]
    searchers = sorted(everyone, key=lambda own: place.get(own["label"], len(place)))
    runs = [
        run
        for own in searchers
        for run in (found if own["label"] in entries else kept).runs
        if run.searcher == own["label"]
    ]
    name = "hyperparameters"
    said = kept.provenance.get(name, {}) | found.provenance.get(name, {})
    again = kept.provenance.get(AGAIN, {}) | dict.fromkeys(entries, _again(found.provenance))
    return replace(
        kept,
        experiment={**kept.experiment, "searchers": searchers},
        runs=runs,
        provenance={**kept.provenance, name: said, AGAIN: again},
    )


def _thinned(run: Run) -> Run:
    """A search without its mapping, and of its curve what `Run.at` reads, and the end."""
    found = np.searchsorted(run.evaluation, _KEPT, side="right") - 1
    rows = np.unique([*found[found >= 0], len(run.loss) - 1])
    return replace(
        run,
        best_code=(),
        evaluation=run.evaluation[rows],
        time=run.time[rows],
        loss=run.loss[rows],
        counted=None if run.counted is None else run.counted[rows],
    )


def _again(provenance: Mapping[str, Any]) -> str:
    """What computed a method that was searched again, in few words."""
    commit, day = str(provenance.get("commit", ""))[:10], str(provenance["finished"])[:10]
    return ", ".join(part for part in (commit, day, str(provenance.get("processor", ""))) if part)


def as_run(experiment: Mapping[str, Any]) -> Benchmark:
    """The experiment of some results, as a file would have it today."""
    fields = {name: value for name, value in experiment.items() if name in Benchmark.model_fields}
    peers = experiment.get("peers", ())  # they are listed beside the searchers
    own = [_entry(entry) for entry in experiment["searchers"] if entry["label"] not in peers]
    return Benchmark.model_validate({**fields, "searchers": own})


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "label", "preset", "parameters", "seeds", "iterations")
    return {name: entry.get(name) for name in names if entry.get(name) is not None}


def departures(experiment: Mapping[str, Any]) -> list[str]:
    """In words, where an experiment differs from the shipped one of its name; none where nowhere.

    Raises:
        ConfigError: none of that name is shipped.
    """
    name = str(experiment["name"])
    shipped = load_experiment(find_experiment(name), Benchmark)
    told = as_run(experiment)
    found = [
        f"{key} {_shown(value)}"
        for key, value in told.model_dump(mode="json").items()
        if key not in _UNSAID and value != shipped.model_dump(mode="json")[key]
    ]
    theirs = {entry.label: entry for entry in shipped.searchers}
    mine = {entry.label: entry for entry in told.searchers}
    found += [f"without {label}" for label in theirs if label not in mine]
    for label, entry in mine.items():
        if label not in theirs:
            found.append(f"with {label}")
        elif entry != theirs[label]:
            found += [
                f"{label}: {key} {_shown(value)}"
                for key, value in entry.model_dump(mode="json").items()
                if value != theirs[label].model_dump(mode="json")[key]
            ]
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list) and value == list(range(len(value))):
        return str(len(value))  # seeds
    return f"{value:,}" if isinstance(value, int) else str(value)


def origins(
    found: Sequence[Results], labels: Sequence[str] | None = None, *, by_row: bool = False
) -> str:
    """Where results come from: commands and seeds, then by what commit, when, on what and clock.

    Args:
        found: the results of a table.
        labels: the methods that it has; None: all.
        by_row: whether its rows say themselves where a method has another number of seeds.
    """
    by: dict[str, list[str]] = {}
    for results in found:
        own = by.setdefault(_made_by(results, labels), [])
        searched = _searched(results, labels, by_row)
        own += [searched] if searched not in own else []
    return " ".join(f"{'; '.join(searched)}: {made}." for made, searched in by.items())


def _searched(results: Results, labels: Sequence[str] | None, by_row: bool) -> str:
    # Seeds are said of every method anyway.
    changes = "; ".join(
        change
        for change in departures(results.experiment)
        if not re.search(r"\bseeds \S+$", change)
    )
    name = f"`mapspace benchmark {results.experiment['name']}`"
    seeds = seeds_text(results, labels)
    if by_row and "(" in seeds:
        seeds = f"{seeds.split(' (')[0]} where a row says no other number"
    return f"{name}{f' ({changes})' if changes else ''}, {seeds}"


def _made_by(results: Results, labels: Sequence[str] | None) -> str:
    shown = results.searchers if labels is None else labels
    by: dict[str, list[str]] = {}
    for label, made in results.provenance.get(AGAIN, {}).items():
        if label in shown:
            by.setdefault(made, []).append(label)
    again = "".join(f"; {' and '.join(own)}: {made}" for made, own in by.items())
    return f"{made_by(results.provenance)}{again}, seconds are {results.clock} time"
