"""What can go wrong, named by who has to act.

```
MapspaceError
├── ConfigError        the user corrects a file or an argument (the command line exits with 2)
│   └── ArgumentError  one argument, by its name in Python; the command line names its option
├── ContractError      the caller corrects the code: a wrong shape, a nan, calls out of order
└── DataError          a file is damaged or missing; the message names it
```

An infeasible mapping is none of these: it is data, and `Costs.status` carries it.
"""

from __future__ import annotations


class MapspaceError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(MapspaceError, ValueError):
    """A file, a name or an argument that the user has to correct."""


class NoMappingError(ConfigError):
    """No mapping is feasible, and that is certain."""


class ArgumentError(ConfigError):
    """An argument of a function that the user has to correct.

    Attributes:
        argument: its name.
        remark: what is wrong with it, as the text that follows its name.
    """

    def __init__(self, argument: str, remark: str) -> None:
        super().__init__(argument, remark)
        self.argument = argument
        self.remark = remark

    def __str__(self) -> str:
        return f"{self.argument}{self.remark}"

    @property
    def as_option(self) -> str:
        """The same line with the command line's option in place of the argument."""
        return f"--{self.argument.replace('_', '-')}{self.remark}"


class ContractError(MapspaceError, ValueError):
    """A misuse of an interface that the calling code has to correct."""


class DataError(MapspaceError):
    """A damaged or missing file, named in the message."""
