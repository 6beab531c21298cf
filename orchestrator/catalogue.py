"""`mapspace list`: what there is, as plain tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

# What a benchmark's `model` names besides those that score records.
TILING_MODELS = {
    "tiling": "costmodel.tiling.analytical:AnalyticalTiling",
    "tvm": "costmodel.tiling.measure:MeasuredTiling",
}


def catalogue(kind: str | None) -> str:
    """The tables as text.

    Args:
        kind: one of `TABLES`; None for all.
    """
    kinds = [kind] if kind else list(TABLES)
    parts = []
    for name in kinds:
        rows = list(TABLES[name]())
        width = max((len(row[0]) for row in rows), default=0) + 2
        lines = [f"{first:<{width}}{second}".rstrip() for first, second in rows]
        parts.append("\n".join([name.upper(), *(f"  {line}" for line in lines)]))
    return "\n\n".join(parts)


def _searchers() -> Iterable[tuple[str, str]]:
    import importlib

    from searchers import SEARCHERS, searcher_class

    for name in sorted(SEARCHERS):
        module = importlib.import_module(SEARCHERS[name].partition(":")[0])
        sentence = (module.__doc__ or "").strip().splitlines()[0]
        presets = ", ".join(sorted(searcher_class(name).PRESETS))
        yield name, sentence + (f" Presets: {presets}." if presets else "")


def _models() -> Iterable[tuple[str, str]]:
    import importlib

    from orchestrator.records import MODELS

    for name, place in {**MODELS, **TILING_MODELS}.items():
        module, _, attribute = place.partition(":")
        made_by = getattr(importlib.import_module(module), attribute)
        note = " In benchmarks." if name in TILING_MODELS else ""
        yield name, (made_by.__doc__ or "").strip().splitlines()[0] + note


def _accelerators() -> Iterable[tuple[str, str]]:
    from costmodel.accelerator import accelerator, accelerator_names

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
    from costmodel.workload import workload, workload_names

    for name in workload_names():
        found = workload(name)
        sizes = " ".join(f"{dimension}={size}" for dimension, size in found.dimensions.items())
        yield name, f"{sizes}  ({found.macs / 1e9:,.3f} GMAC)"


def _experiments() -> Iterable[tuple[str, str]]:
    from costmodel.loading import load_yaml
    from orchestrator.experiment import EXPERIMENTS, shipped_experiments

    for name in shipped_experiments():
        data = load_yaml(EXPERIMENTS / f"{name}.yaml")
        description = " ".join(str(data.get("description", "")).split())
        yield name, f"{data.get('kind', '')}: {description}".rstrip(": ")


TABLES: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
    "searchers": _searchers,
    "models": _models,
    "accelerators": _accelerators,
    "workloads": _workloads,
    "experiments": _experiments,
}
