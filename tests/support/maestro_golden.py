"""The records made with MAESTRO (reference implementation, commit 4eb08d1)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from paths import GOLDEN

PATH = GOLDEN / "maestro" / "maestro-dev.jsonl.gz"
STRIDED = PATH.with_name("strided.jsonl.gz")


def load(path: Path = PATH) -> list[dict[str, Any]]:
    """All 3,027 records, fresh; or the 200 of `STRIDED`, whose work MAESTRO counts right, too."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def is_clean(record: dict[str, Any]) -> bool:
    """Whether MAESTRO is to be trusted: tiles divide, and its own count of work is right."""
    return bool(record.get("macs_ok")) and not record["has_edges"]
