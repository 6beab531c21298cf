"""What a searcher or a cost model promises, as tests that whoever writes one runs on it.

```python
from mapspace.testing import SearcherContract

class TestHillClimbing(SearcherContract):
    names = ("hill-climbing",)
```

They need pytest and hypothesis: `pip install 'mapspace[testing]'`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mapspace.testing.cost_models import CostModelContract
    from mapspace.testing.searchers import SearcherContract

__all__ = ["CostModelContract", "SearcherContract"]

_LAZY = {
    "CostModelContract": "mapspace.testing.cost_models",
    "SearcherContract": "mapspace.testing.searchers",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    # So that a broken promise shows what was compared.
    pytest.register_assert_rewrite(_LAZY[name])
    return getattr(importlib.import_module(_LAZY[name]), name)
