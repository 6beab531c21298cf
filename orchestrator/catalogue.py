"""`mapspace list`: what there is, as plain tables."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterable

from mapspace.errors import ConfigError
from mapspace.plugins import Registry
from orchestrator.schemas.runs import ListAnswer, SearcherAnswer


def catalogue(kind: str | None, *, long: bool = False) -> str:
    """The tables as text.

    Args:
        kind: one of `TABLES`; None for all.
        long: with the hyperparameters of every searcher.
    """
    from orchestrator.report.document import LEFT, Table
    from orchestrator.report.text_table import WIDTH, line_width, table_lines

    parts = []
    for name in [kind] if kind else TABLES:
        rows = []
        for row in TABLES[name]():
            rows += [row, *(_hyperparameters(row[0]) if long and name == "searchers" else ())]
        table = Table(name, "", ("", ""), (LEFT, LEFT), rows)
        width = min(WIDTH, line_width()) - 2
        lines = (f"  {line}".rstrip() for line in table_lines(table, width=width))
        parts.append("\n".join([name.upper(), *lines]))
    return "\n\n".join(parts)


def tables(kind: str | None) -> ListAnswer:
    """A sentence by name, by kind of thing.

    Args:
        kind: one of `TABLES`; None for all.
    """
    return {
        name: {str(key): str(about) for key, about in TABLES[name]()}
        for name in ([kind] if kind else TABLES)
    }


def searcher_answer(name: str) -> SearcherAnswer:
    """What a searcher is and its hyperparameters, as JSON types.

    Raises:
        ConfigError: there is none of that name, or its package cannot be imported.
    """
    from searchers import searcher_class

    options = searcher_class(name).OPTIONS
    return {
        "name": name,
        "about": tables("searchers")["searchers"][name],
        "presets": {preset: options.SOURCES.get(preset, "") for preset in options.PRESETS},
        "hyperparameters": [
            {
                "name": one.name,
                "allowed": one.allowed,
                "default": one.default,
                "presets": dict(one.presets),
                "meaning": one.sentence,
                "of": one.of,
            }
            for one in options.explained()
        ],
    }


def searcher_text(name: str) -> str:
    """The same for people.

    Raises:
        ConfigError: as `searcher_answer`.
    """
    from orchestrator.report.document import LEFT, Table
    from orchestrator.report.text_table import WIDTH, line_width, table_lines

    width = min(WIDTH, line_width())
    found = searcher_answer(name)
    sources = [("defaults", "of this project"), *found["presets"].items()]
    parts = [textwrap.fill(f"{name}: {found['about']}", width)]
    for title, rows in (
        ("Where values come from", sources),
        ("Hyperparameters, for --set NAME=VALUE", [*_hyperparameters(name)]),
    ):
        table = Table("", title, ("", ""), (LEFT, LEFT), rows)
        parts.append("\n".join(line.rstrip() for line in table_lines(table, width=width)))
    return "\n\n".join(parts)


def _hyperparameters(name: str) -> Iterable[tuple[str, str]]:
    """Each hyperparameter of a searcher: type and range, default and presets, its sentence."""
    from searchers import searcher_class

    try:
        found = searcher_class(name).OPTIONS.explained()
    except ConfigError:  # a plug-in that cannot be imported; its row says so
        return
    for one in found:
        values = ["must be given" if one.default is None else f"default {one.default}"]
        values += [f"{preset} {value}" for preset, value in one.presets.items()]
        of = "" if one.of is None else f"of {one.of}: "
        yield f"  {one.name}", f"{of}{one.allowed}; {', '.join(values)}. {one.sentence}"


def _rows(table: Registry, sentence: Callable[[str], str]) -> Iterable[tuple[str, str]]:
    """What a table has, plug-ins with their packages; one that fails or is refused says why."""
    for name in sorted(table):
        package = table.package(name)
        note = "" if package is None else f" Plug-in of {package}."
        try:
            yield name, sentence(name) + note
        except ConfigError as error:
            yield name, str(error)
    for name, why in table.refused().items():
        yield name, why


def _searchers() -> Iterable[tuple[str, str]]:
    from searchers import SEARCHERS, searcher_class

    def sentence(name: str) -> str:
        cls = searcher_class(name)
        module = importlib.import_module(cls.__module__)
        first = inspect.getdoc(module) or inspect.getdoc(cls) or ""
        presets = ", ".join(sorted(cls.OPTIONS.PRESETS))
        return first.partition("\n")[0] + (f" Presets: {presets}." if presets else "")

    return _rows(SEARCHERS, sentence)


def _models() -> Iterable[tuple[str, str]]:
    from costmodel.models import COST_MODELS, cost_model_entry

    def sentence(name: str) -> str:
        entry = cost_model_entry(name)
        return entry.description + (" In benchmarks." if entry.records is None else "")

    return _rows(COST_MODELS, sentence)


def _accelerators() -> Iterable[tuple[str, str]]:
    from costmodel.machines.accelerators import accelerator, accelerator_names

    for name in accelerator_names():
        found = accelerator(name)
        notes = [str(found).partition(": ")[2]]
        if any(level.banks is not None for level in found.levels):
            notes.append("banks allocated")
        if any(level.read_bandwidth is not None for level in found.levels):
            notes.append("limited bandwidth")
        if found.bypass == "searched":
            notes.append("bypass searched")
        if found.overflow == "bypass":
            notes.append("overflow bypasses")
        yield name, ", ".join(notes)


def _workloads() -> Iterable[tuple[str, str]]:
    from costmodel.problems.workloads import workload, workload_names

    first: dict[str, str] = {}
    for name in workload_names():
        found = workload(name)
        same = first.setdefault(found.hash, name)
        sizes = " ".join(f"{dimension}={size}" for dimension, size in found.dimensions.items())
        yield name, f"{sizes}  ({_macs(found.macs)})" if same == name else f"the same as {same}"


def _macs(macs: int) -> str:
    """A number of multiply-accumulates with four digits."""
    scale, prefix = next(
        (scale, prefix)
        for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
        if macs >= scale or scale == 1
    )
    return f"{macs / scale:.4g} {prefix}MAC"


def _networks() -> Iterable[tuple[str, str]]:
    from costmodel.networks.published_networks import PUBLISHED, published_network
    from costmodel.networks.transformers import TRANSFORMERS, transformer
    from costmodel.problems.workloads import network, network_names

    published = [published_network(name) for name in PUBLISHED]
    presets = [(name, network(name)) for name in network_names()]
    for name, layers in [*presets, *(found for found in published if found is not None)]:
        macs = sum(layer.macs * count for layer, count in layers)
        count = sum(count for _, count in layers)
        yield name, f"{count} layers, {len(layers)} distinct  ({_macs(macs)})"
    for name, model in TRANSFORMERS.items():
        found = transformer(name)
        assert found is not None  # it is one of them
        macs = sum(layer.macs * count for layer, count in found[1])
        yield (
            name,
            f"transformer, {model.sequence} tokens  ({_macs(macs)}); :phase, sequence, batch",
        )


def _experiments() -> Iterable[tuple[str, str]]:
    from mapspace.strict_yaml import load_yaml
    from orchestrator.runs.experiments import EXPERIMENTS, shipped_experiments

    for name in shipped_experiments():
        data = load_yaml(EXPERIMENTS / f"{name}.yaml")
        description = " ".join(str(data.get("description", "")).split())
        yield name, f"{data.get('kind', '')}: {description}".rstrip(": ")


TABLES: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
    "searchers": _searchers,
    "models": _models,
    "accelerators": _accelerators,
    "workloads": _workloads,
    "networks": _networks,
    "experiments": _experiments,
}
