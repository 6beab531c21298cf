"""Answers as text: every `--json` is printed by this."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(answer: Any) -> str:
    """An answer as JSON in one line. JSON has no infinite numbers: they are null."""
    return json.dumps(finite(answer), allow_nan=False)


def answer_text(answer: Mapping[str, Any]) -> str:
    """An answer that no store has had a part in, and that says so, as JSON in one line."""
    return json_text({**answer, "from_store": False})


def finite(answer: Any) -> Any:
    """An answer with None for numbers that JSON cannot say, and lists for tuples."""
    if isinstance(answer, float):
        return answer if math.isfinite(answer) else None
    if isinstance(answer, Mapping):
        return {key: finite(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [finite(value) for value in answer]
    return answer
