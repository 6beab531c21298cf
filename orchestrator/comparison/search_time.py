"""What the seconds of a benchmark's searches are, and whether others used the processors, too."""

from __future__ import annotations

import numpy as np

from orchestrator.comparison.results import TIMED, Results

# Search time by the wall over processor time from which on a machine was shared, and how much of it
# there has to be, s: less is a matter of chance.
SHARED, LEAST_SECONDS = 1.05, 1.0

CLOCKS = {
    "processor": "processor time of the process that searches, all of its threads",
    "wall": "time by the wall",
}


def shared_text(results: Results) -> str:
    """That others used the processors while it ran, in a line; empty where nobody did."""
    times = np.concatenate(
        [
            np.column_stack([results.column(name, own) for name in TIMED])
            for own in results.searchers
        ]
    )
    processor, wall = times[np.isfinite(times).all(axis=1)].sum(axis=0)
    if wall >= LEAST_SECONDS and wall > SHARED * processor:
        what = f"{wall:,.1f} s by the wall, {processor:,.1f} s of processor time"
    else:
        made = results.provenance
        searched, elapsed = (made.get(f"{name}_seconds", 0.0) for name in ("search", "elapsed"))
        if not searched > SHARED * elapsed * (made["processors"] or 1):
            return ""
        what = f"{searched:,.1f} s in {elapsed:,.1f} s on {made['processors']} processors"
    busy = " Figures over time are those of a busy machine." if results.clock == "wall" else ""
    return f"The machine was shared: searches took {what}.{busy}"
