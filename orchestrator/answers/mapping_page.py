"""A mapping as a page: facts, drawings, energy by level and tensor."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.answers.machine_figure import draw
from orchestrator.answers.mapping_figure import DrawnMapping, cycles_figure, mapping_figure
from orchestrator.answers.timeline import timelines
from orchestrator.answers.timeline_figure import ASSUMED, timeline_figure
from orchestrator.report.document import LEFT, Document, Figure, Row, Section, Table
from orchestrator.report.figure_style import save
from orchestrator.report.page import write_page
from orchestrator.report.shown import Fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from costmodel.machines.accelerators import Accelerator
    from orchestrator.answers.results import SearchResult


def search_document(
    result: SearchResult,
    further: Iterable[Section] = (),
    slices: Sequence[tuple[str, str]] = (),
) -> Document:
    """The page of a search.

    Args:
        result: its result.
        further: sections about it that others write.
        slices: pairs of attributes of the map space to draw it over; none: two most of whose points
            are feasible, where it has two dimensions.

    Raises:
        ConfigError: a pair is not of two different attributes.
    """
    sections = [facts_section("Costs, and what is certain", result.facts(every_cost=True))]
    sections += mapping_sections(result.drawn._replace(title="The mapping"))
    if result.explained is not None:
        sections.append(facts_section("What holds the optimum up", result.explained.facts()))
    if slices or len(result.workload.dimensions) > 1:
        sections.append(_slices_section(result, slices))
    sections += [*further, machine_section(result.accelerator)]
    return Document(result.heading(), f"`{result.workload}`", sections)


def save_document(document: Document, page: Path) -> None:
    """Writes a page that needs no other file."""
    with tempfile.TemporaryDirectory() as folder:
        write_page(document, page, Path(folder))


def facts_section(heading: str, facts: Iterable[Fact]) -> Section:
    """Labels and texts as a table."""
    rows = tuple(facts)
    return Section(heading, [Table("facts", "", ("", ""), (LEFT, LEFT), rows)] if rows else [])


def mapping_sections(drawn: DrawnMapping, key: str = "mapping") -> list[Section]:
    """The loop nest as a drawing, energies as a table, and cycles where several things take some.

    Args:
        drawn: the mapping.
        key: what its files are called.
    """
    # The page's own headings say what figures are of.
    bare = drawn._replace(title="")
    nest = Figure(
        key, "loop nest", _into(lambda: mapping_figure(bare)),
        "Bars in the nest: the tiles that each instance of a level holds, against what it takes. "
        "Loops in time are dark, loops across children blue.",
    )  # fmt: skip
    found = [Section(drawn.title, [nest, _energies(drawn, key)])]
    if timelines(drawn, first=1):
        figure = Figure(f"{key}-timeline", "the first tiles", _into_timeline(bare), ASSUMED)
        found.append(Section(f"{drawn.title}: the first tiles", [figure]))
    if sum(one.cycles > 0 for one in drawn.limits) > 1:
        title = "cycles by cause"
        figure = Figure(f"{key}-cycles", title, _into(lambda: cycles_figure(drawn)))
        found.append(Section(f"{drawn.title}: {title}", [figure]))
    return found


def machine_section(machine: Accelerator) -> Section:
    """A machine as a drawing."""
    figure = Figure("machine", machine.name, lambda path: draw(machine, path))
    return Section("The machine", [figure])


def _slices_section(result: SearchResult, slices: Sequence[tuple[str, str]]) -> Section:
    drawings = [result.slice(*pair) for pair in slices] or [result.slice()]
    for drawing in drawings:
        drawing.suptitle("")
    figures = [
        Figure(
            f"slice-{number}", "two attributes vary", partial(save, drawing),
            "The star is the mapping; every other point differs from it in two attributes alone.",
        )
        for number, drawing in enumerate(drawings, 1)
    ]  # fmt: skip
    return Section("The map space around it", figures)


def _into_timeline(drawn: DrawnMapping) -> Callable[[Path], None]:
    figure = timeline_figure(drawn)
    assert figure is not None  # asked for where there is one
    return _into(lambda: figure)


def _into(make: Callable[[], Drawing]) -> Callable[[Path], None]:
    return lambda path: save(make(), path)


def _energies(drawn: DrawnMapping, key: str) -> Table:
    """Energy by level and tensor."""
    scale, unit = drawn.scale
    detail, tensors = drawn.detail, drawn.mapping.tensors
    blank: Sequence[float | None] = [None] * len(tensors)
    rows: list[Row] = []
    for index, level in enumerate(drawn.mapping.levels):
        parts = [float(energy) / scale for energy in detail.energy_pj[0, index]]
        rows.append((level.name, *parts, sum(parts)))
    hops = [float(energy) / scale for energy in detail.network_energy_pj[0]]
    if any(hops):
        rows.append(("network", *hops, sum(hops)))
    return Table(
        f"{key}-energy", f"energy, {unit}", ("level", *tensors, "total"),
        (LEFT, *["{:.4f}"] * (len(tensors) + 1)), rows,
        foot=[("MAC", *blank, detail.mac_energy_pj / scale)],
    )  # fmt: skip
