"""The JSON Schema of mapping records, made from the models that read them."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from costmodel.loop_nest.nest_record_models import NestArch, NestLoops, NestProblem
from costmodel.loop_nest.records import VERSION
from costmodel.map_space.record_models import Arch, MappingPart, Problem
from mapspace.strict_yaml import Name

IDENTIFIER = f"mapping-record.v{VERSION}.json"


class MappingRecord(BaseModel):
    """A mapping, its operation and its machine. Any other key is the user's own, and is kept."""

    model_config = ConfigDict(extra="allow")

    version: Literal[1] = Field(1, description="Of this schema.")
    workload: str | dict[str, Any] | None = Field(
        None,
        description="The operation: a preset's name, inline text, a YAML file, or the content of "
        "one (docs/guide/workloads.md). In place of problem.",
    )
    problem: Problem | NestProblem | None = Field(
        None, description="The operation in full: by kind, or any affine nest (tensors with axes)."
    )
    accelerator: str | dict[str, Any] | None = Field(
        None,
        description="The machine: a preset's name, a YAML file, or the content of one "
        "(docs/guide/accelerators.md). In place of arch.",
    )
    arch_name: Name = Field("record", description="What reports call the machine in arch.")
    arch: Arch | NestArch | None = Field(
        None,
        description="The machine in full: levels by name beside a mapping by name, levels listed "
        "beside one that is listed.",
    )
    mapping: MappingPart | list[NestLoops] = Field(
        description="Loops by level: an object by the level's name, or a list, outermost first. "
        "Levels without loops and loops of one iteration may be left out.",
    )
    result: dict[str, Any] | None = Field(
        None, description="Costs, as evaluate writes them; not read."
    )


_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
"""What pydantic writes of a bound behind a validator, and what JSON Schema calls it."""


def record_schema() -> dict[str, Any]:
    """The schema (JSON Schema, draft 2020-12)."""
    schema: dict[str, Any] = tidied(MappingRecord.model_json_schema())
    # `whole_records` fills it in before the model sees it.
    schema["$defs"]["NestLoops"]["required"].remove("keep")
    schema["allOf"] = [
        {"oneOf": [{"required": [short]}, {"required": [whole]}]}
        for short, whole in (("workload", "problem"), ("accelerator", "arch"))
    ]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTIFIER,
        "title": "mapspace mapping record",
    }
    return head | schema


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(record_schema(), indent=1) + "\n"


def tidied(part: Any, *, names: bool = False) -> Any:
    """Without titles, which only repeat a key; `names` where keys are those of a record."""
    if isinstance(part, list):
        return [tidied(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    return {
        key if names else _KEYWORDS.get(key, key): tidied(
            value, names=not names and key in ("properties", "$defs")
        )
        for key, value in part.items()
        if names or key != "title"
    }
