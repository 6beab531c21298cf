"""Rows of a store that differ by a number, and a store that keeps what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mapspace.storage import RemotePath
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row, content_id


def row_of(number: int, **changes: Any) -> Row:
    """A row that differs from those of other numbers."""
    values: dict[str, Any] = {
        "kind": "search",
        "question": content_id(f"question {number}".encode()),
        "address": content_id(f"address {number}".encode()),
        "workload": "gemm",
        "workload_hash": "w",
        "problem": "p",
        "accelerator": "mm256",
        "accelerator_hash": "a",
        "objective": "edp",
        "model": "loopnest",
        "model_version": "1",
        "method": "random",
        "seed": number,
        "value": 1.5 + number,
        "stored": 1.0,
        "mapspace": "0",
        "payload": json.dumps({"number": number}),
    }
    return Row(**{**values, **changes})


class Quiet(Store):
    """A store that keeps what it says."""

    def __init__(self, place: Path | RemotePath) -> None:
        self.lines: list[str] = []
        super().__init__(place, self.lines.append)


def found(store: Store, number: int) -> Row | None:
    return next(iter(store.rows([row_of(number).question])), None)


def numbers(store: Store) -> list[int]:
    everything = [row_of(number).question for number in range(300)]
    return sorted(row.seed for row in store.rows(everything))
