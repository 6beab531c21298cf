"""What can go wrong, named by who has to act.

```
MapspaceError
├── ConfigError        the user corrects a file or an argument (the command line exits with 2)
│   ├── ArgumentError  one argument, by its name in Python; the command line names its option
│   └── CombinedError  several of these, said at once
├── ContractError      the caller corrects the code: a wrong shape, a nan, calls out of order
└── DataError          a file is damaged or missing; the message names it
```

An infeasible mapping is none of these: it is data, and `Costs.status` carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Found = TypeVar("Found")


class MapspaceError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(MapspaceError, ValueError):
    """A file, a name or an argument that the user has to correct."""

    @property
    def as_option(self) -> str:
        """What the command line says: its options in place of arguments."""
        return str(self)


class NoMappingError(ConfigError):
    """No mapping is feasible, and that is certain."""


_OPTIONS = {"parameters": "set"}
"""Options of the command line that are called otherwise than the argument."""


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
        name = _OPTIONS.get(self.argument, self.argument)
        return f"--{name.replace('_', '-')}{self.remark}"


class CallError(ConfigError, TypeError):
    """A call without an argument that has to be there, or with one that nobody asks for."""


class CombinedError(ConfigError):
    """Several things that the user has to correct, each in its own words."""

    def __str__(self) -> str:
        return " ".join(dict.fromkeys(map(str, self.args)))

    @property
    def as_option(self) -> str:
        """Likewise, with options in place of arguments."""
        return " ".join(dict.fromkeys(error.as_option for error in self.args))


def together(*checks: Callable[[], object]) -> tuple[Any, ...]:
    """Makes checks that do not need each other, and says all that is wrong at once.

    Args:
        checks: each raises what is wrong, or returns what it has read.

    Returns:
        What they returned, in order.

    Raises:
        ConfigError: of the only one that fails, or all of several.
    """
    wrong: list[ConfigError] = []
    found = tuple(noted(wrong, check, None) for check in checks)
    refuse(wrong)
    return found


def noted(wrong: list[ConfigError], check: Callable[[], Found], default: Found) -> Found:
    """Makes a check, and notes what is wrong in place of raising it.

    Args:
        wrong: takes it.
        check: as `together` takes them.
        default: what is returned then.
    """
    try:
        return check()
    except CombinedError as error:
        wrong += error.args
    except ConfigError as error:
        wrong.append(error)
    return default


def refuse(wrong: Sequence[ConfigError]) -> None:
    """Raises what is wrong, if anything is: the one error, or all of several."""
    if wrong:
        raise wrong[0] if len(wrong) == 1 else CombinedError(*wrong)


class ContractError(MapspaceError, ValueError):
    """A misuse of an interface that the calling code has to correct."""


class DataError(MapspaceError):
    """A damaged or missing file, named in the message."""


class UnwritableError(MapspaceError, OSError):
    """A file that cannot be written: errno, reason and file, as of any `OSError`."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be written: {self.strerror}."
