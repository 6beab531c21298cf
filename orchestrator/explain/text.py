"""What `mapspace explain` and `mapspace diff` print for people, and their pages."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.answers.facts import energy_table
from orchestrator.answers.limits import limits_text, slowest
from orchestrator.answers.mapping_page import facts_section, machine_section, mapping_sections
from orchestrator.explain.comparison import ComparedMappings, edp_of, energy_of, latency_of
from orchestrator.explain.read_mapping import ReadMapping
from orchestrator.explain.record_explanation import ExplainedMapping
from orchestrator.report.document import Document
from orchestrator.report.shown import Fact, aligned
from orchestrator.report.units import percent


def explained_text(explained: ExplainedMapping) -> str:
    """A mapping's explanation in full."""
    read = explained.read
    machine = read.space.in_order(read.code)[0].accelerator
    facts = list(explained.facts())
    width = max(len(label) for label, _ in facts) + 2
    return "\n".join(
        [
            f"{read.workload}",
            "",
            str(read.mapping),
            "",
            *energy_table(
                machine.level_names,
                read.workload.tensor_names,
                read.detail,
                read.energy_pj,
            ),
            "",
            *aligned(_costs(read)),
            "",
            "where the accesses come from, the dearest first",
            *(f"  {label:<{width}}{text}" for label, text in facts),
        ]
    )


def _costs(read: ReadMapping) -> Iterator[Fact]:
    yield "energy", energy_of(read)
    yield "latency", latency_of(read)
    yield "EDP", edp_of(read)
    yield "utilisation", percent(float(read.detail.utilisation[0]))
    yield "limited by", str(slowest(read.limits))
    yield from limits_text(read.limits)


def compared_text(compared: ComparedMappings) -> str:
    """What differs between two mappings."""
    return "\n".join([compared.heading(), "", *aligned(compared.facts())])


def explained_document(explained: ExplainedMapping) -> Document:
    """A mapping's explanation as a page."""
    read = explained.read
    drawn = read.drawn._replace(title="The mapping")
    causes = facts_section("Where the accesses come from", explained.facts())
    sections = [facts_section("Costs", _costs(read)), *mapping_sections(drawn), causes]
    lead = f"`{read.workload}`"
    return Document(explained.heading(), lead, [*sections, machine_section(drawn.machine)])


def compared_document(compared: ComparedMappings) -> Document:
    """Two mappings beside each other as a page."""
    sections = [facts_section("What differs", compared.facts())]
    for key, read in (("first", compared.first), ("second", compared.second)):
        drawn = read.drawn._replace(title=f"{key}: {read.heading}")
        sections += mapping_sections(drawn, key)
    return Document(compared.heading(), f"`{compared.first.workload}`", sections)
