"""What can go wrong, named by who has to act.

```
MapspaceError
├── ConfigError      the user corrects a file or an argument (the command line exits with 2)
├── ContractError    the caller corrects the code: a wrong shape, a nan, calls out of order
└── DataError        a file is damaged or missing; the message names it
```

An infeasible mapping is none of these: it is data, and `Costs.status` carries it.
"""

from __future__ import annotations


class MapspaceError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(MapspaceError, ValueError):
    """A file, a name or an argument that the user has to correct."""


class ContractError(MapspaceError, ValueError):
    """A misuse of an interface that the calling code has to correct."""


class DataError(MapspaceError):
    """A damaged or missing file, named in the message."""
