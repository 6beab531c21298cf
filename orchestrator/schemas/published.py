"""The JSON Schemas of all that commands print, made of the types that the code writes.

`additionalProperties` is false throughout: a key that no type has fails the tests that run every
command against its schema.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, TypeAdapter, create_model

from costmodel.loop_nest.record_schema import record_schema, tidied
from costmodel.machines.machine_summary import MachineSummary
from orchestrator.runs.progress_file import Progress, Status
from orchestrator.schemas import evaluations, explained, proofs, runs, scalesim, search, spaces
from orchestrator.schemas.costs import Costs


def _watched() -> Any:
    """What `mapspace watch` prints: a run notes its progress, or nothing is known of it."""
    noted = {
        name: (field.annotation, Field(None, description=field.description))
        for name, field in Progress.model_fields.items()
        if name != "status"
    }
    run = create_model(
        "WatchedRun",
        path=(str, ...),
        words=(str, ...),
        page=(str | None, ...),
        silent=(int | None, ...),
        problem=(str, ...),
        status=(Status | Literal["unknown"], ...),
        **noted,  # type: ignore[call-overload]
    )
    return create_model("Watched", folder=(str, ...), runs=(list[run], ...))


ANSWERS: Mapping[str, Any] = {
    "search": search.SearchAnswer,
    "search-problems": search.SearchAnswer | search.NoMapping,
    "search-network": search.NetworkAnswer,
    "search-network-jointly": search.JointAnswer,
    "search-network-resident": search.ResidentAnswer,
    "search-simulator": search.SimulatedAnswer,
    "search-scalesim": scalesim.ScaleSimAnswer,
    "tile": search.TileAnswer,
    "verify": proofs.VerifyAnswer,
    "pareto": proofs.ParetoAnswer,
    "bypass": proofs.BypassAnswer,
    "evaluate-timeloop": evaluations.TimeloopAnswer,
    "explain": explained.ExplainAnswer,
    "diff": explained.DiffAnswer,
    "why-not": explained.WhyNotAnswer,
    "widen": explained.WidenAnswer,
    "watch": _watched(),
    "space": spaces.SpacesAnswer,
    "space-family": spaces.FamilyAnswer,
    "describe": MachineSummary,
    "describe-searcher": runs.SearcherAnswer,
    "results": runs.ResultsAnswer,
    "results-rows": runs.RowsAnswer,
    "results-rm": runs.RemovedAnswer,
    "results-gc": runs.ClearedAnswer,
    "list": runs.ListAnswer,
    "report": runs.ReportAnswer,
    "compare": runs.CompareAnswer,
    "experiment": runs.RunAnswer,
    "design": runs.DesignAnswer,
    "submit": runs.JobAnswer,
    "text": runs.TextAnswer,
    "evaluate-records": runs.RecordsAnswer,
    "sweep-tables": runs.SweepAnswer,
}
"""What is printed, by the name of its schema: the command, and what makes it another answer."""
NO_ANSWERS = frozenset({"list", "results", "results-rm", "results-gc"})
"""What is a table of things by name or of rows, and what was done to a store."""
_FROM_STORE = {
    "type": "boolean",
    "description": "Whether it was read from the store of results; of what asks none, false.",
}
OF_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("benchmark", "generate", "sweep", "train"), "experiment"),
    **dict.fromkeys(("check", "export", "import"), "text"),
    "evaluate": "record",
    "run": "report",
}
"""The schemas of commands whose answers have another name."""
NAMES = ("record", *ANSWERS)
_ATTRIBUTE = re.compile(r"^    (\w+): (.*)$")


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an answer, of a command's, or of a mapping record.

    Raises:
        KeyError: there is none of that name.
    """
    name = OF_COMMANDS.get(name, name)
    if name == "record":
        return record_schema()
    found: dict[str, Any] = tidied(TypeAdapter(ANSWERS[name]).json_schema())
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"mapspace-{name}.json",
        "title": f"mapspace {name}",
    }
    definitions = found.pop("$defs", {})
    parts = {key: _closed(part) for key, part in definitions.items()}
    whole = _closed(found)
    if "properties" in whole and name not in NO_ANSWERS:
        # Commands say it always, agents' tools where a store can have a part in the answer.
        whole["properties"].setdefault("from_store", _FROM_STORE)
    return head | whole | ({"$defs": parts} if parts else {})


def schema_text(name: str) -> str:
    """A schema as it is printed."""
    return json.dumps(schema(name), indent=1) + "\n"


def _closed(part: dict[str, Any]) -> dict[str, Any]:
    """An object that has no other keys, each described as the docstring of its type does."""
    if "properties" not in part:
        return part
    text, _, attributes = part.get("description", "").partition("\n\nAttributes:\n")
    said = _COSTS | _said(attributes)
    properties = {
        key: value | ({"description": said[key]} if key in said else {})
        for key, value in part["properties"].items()
    }
    described = {"description": " ".join(text.split())} if text else {}
    return part | described | {"properties": properties, "additionalProperties": False}


def _said(attributes: str) -> dict[str, str]:
    """A sentence per attribute of a docstring's section."""
    found: dict[str, str] = {}
    last = ""
    for line in attributes.splitlines():
        match = _ATTRIBUTE.match(line)
        if match is not None:
            last = match[1]
            found[last] = match[2]
        elif last and line.strip():
            found[last] += f" {line.strip()}"
    return found


# Costs are called the same in every answer.
_COSTS = _said(inspect.cleandoc(Costs.__doc__ or "").partition("Attributes:\n")[2])
