"""A bar of progress on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(unit: str, *, drawn: bool) -> Progress:
    """A bar whose tasks have a field `note` beside the count.

    Args:
        unit: what is counted, in the plural.
        drawn: False for one that is not shown.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True, quiet=not drawn),
        # Tasks differ much in time, so the rate is that of all finished ones.
        speed_estimate_period=3600.0,
    )
