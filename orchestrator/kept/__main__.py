"""`make pages`: makes the tables of pages from the results that are kept beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from mapspace.errors import MapspaceError
from orchestrator.kept.pages import fill

if __name__ == "__main__":
    try:
        for page in fill([Path(name) for name in sys.argv[1:]]):
            print(page)
    except MapspaceError as error:
        sys.exit(f"Error: {error}")
