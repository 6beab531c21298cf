"""How runs stand, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def state_text(state: dict[str, Any]) -> str:
    """What `folder_state` gives, for a person."""
    if not state["runs"]:
        return f"{state['folder']}: no run has begun here."
    return "\n".join(line for run in state["runs"] for line in _lines(state["folder"], run))


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _lines(folder: str, run: dict[str, Any]) -> Iterator[str]:
    where = f"{folder}/{run['path']}" if run["path"] else folder
    if run["status"] == "unknown":
        yield f"{where}: {run['words']}. {run['problem']}"
        return
    yield f"{where}: {run['kind']} {run['name']}, {_status(run)}"
    if run["stage"] and run["unit"]:
        of = "" if run["total"] is None else f" of {run['total']:,}"
        left = (
            "" if run["seconds_left"] is None else f", about {duration(run['seconds_left'])} left"
        )
        yield f"  {run['stage']}: {run['done']:,}{of} {run['unit']}{left}"
    if run["busy"] is not None and run["status"] == "running":
        yield f"  {run['busy']:g} of {run['processors']:,} processors busy"
    for task in run["running"]:
        yield f"  runs: {task['name']}"
    for line in run["failure_lines"]:
        yield f"  failed: {line}"
    if run["page"]:
        yield f"  page: {run['page']}"


def _status(run: dict[str, Any]) -> str:
    spent = duration(run["updated"] - run["started"])
    if run["silent"] is not None:
        return f"has said nothing for {duration(run['silent'])}: killed, or its machine is away"
    reason = f": {run['reason']}" if run["reason"] else ""
    return (
        f"{run['status']} after {spent}{reason}"
        if run["status"] != "running"
        else (f"running for {spent}")
    )
