"""Where the tests find what they read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
SUPPORT = TESTS / "support"
GOLDEN = TESTS / "golden"
EXPERIMENTS = ROOT / "mapspace" / "experiments"
