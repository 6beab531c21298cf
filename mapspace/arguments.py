"""Arguments of another type than a signature says: one line, before anything is done with them.

```python
@checked
def search(workload: str | Path, *, seconds: float | None = None) -> Result: ...

search("gemm-512", seconds="5")  # ArgumentError: seconds: expected a number or None, got '5'.
```
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from mapspace.errors import ArgumentError, CallError, ConfigError, MapspaceError
from mapspace.extras import what_is_missing
from mapspace.near_names import meant, nearest
from mapspace.strict_yaml import plain_scalar, shown

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type[Any])

_WORDS: Mapping[Any, str] = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    Path: "a path",
    Mapping: "a mapping",
    dict: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    list: "a list",
    tuple: "a list",
}
_UNIONS = (typing.Union, types.UnionType)
_ANYTHING = (Any, object)


def checked(function: Function, options: type | None = None) -> Function:
    """A function that refuses arguments of other types than it says.

    Args:
        function: a function, or a method whose first parameter is `self`.
        options: a typed dictionary of what it takes by name beside its own parameters.

    Returns:
        The function, which raises `ArgumentError`; values are for the function itself to check.
    """
    signature = inspect.signature(function)
    own = inspect.unwrap(function)

    @functools.cache
    def allowed() -> Mapping[str, Any]:
        return _types_of(own, options)

    @functools.wraps(function)
    def checking(*arguments: Any, **named: Any) -> Any:
        arguments = tuple(map(plain_scalar, arguments))
        named = {name: plain_scalar(value) for name, value in named.items()}
        try:
            given = {**signature.bind(*arguments, **named).arguments, **named}
        except TypeError as error:
            raise _wrong_call(own, signature, error) from None
        for name, value in given.items():
            if name in allowed():
                check(name, value, allowed()[name])
        try:
            return function(*arguments, **named)
        except ModuleNotFoundError as error:
            missing = what_is_missing(error)
            if missing is None:
                raise
            raise ConfigError(missing) from error

    return typing.cast(Function, checking)


def explained(cls: Class) -> Class:
    """A class whose public methods, where they fail, say which argument had another type.

    Nothing is looked at beforehand: a call of some of them takes less time than that.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _explained(method))
    return cls


def _explained(method: Function) -> Function:
    @functools.wraps(method)
    def explaining(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except MapspaceError:
            raise
        except Exception as error:
            _explain(method, arguments, named, error)
            raise

    return typing.cast(Function, explaining)


def _explain(
    method: Callable[..., Any], arguments: Any, named: Mapping[str, Any], error: Exception
) -> None:
    """Raises what is wrong with the type of an argument that a call failed with."""
    signature = inspect.signature(method)
    try:
        given = signature.bind(*arguments, **named).arguments
    except TypeError as wrong:
        raise _wrong_call(method, signature, wrong) from error
    allowed = _types_of(inspect.unwrap(method), None)
    for name, value in given.items():
        if name in allowed and not _fits(value, allowed[name]):
            raise _misfit(name, allowed[name], value) from error


def _wrong_call(
    function: Callable[..., Any], signature: inspect.Signature, error: TypeError
) -> CallError:
    """The error for arguments that a signature has no place for, or that are not there."""
    called = function.__qualname__.removesuffix(".__init__")
    names = [name for name in signature.parameters if name != "self"]
    wrong = str(error).rpartition("unexpected keyword argument ")[2].strip("'")
    if nearest(wrong, names):
        return CallError(f"{called}(): {error}{meant(wrong, names)}")
    return CallError(f"{called}(): {error}; expected {', '.join(names) or 'none'}.")


def check(name: str, value: object, annotation: Any) -> None:
    """Refuses a value of another type.

    Args:
        name: of the argument, or of a part of it.
        value: what came.
        annotation: its type.

    Raises:
        ArgumentError: what was expected and what came.
    """
    if not _fits(value, annotation):
        raise _misfit(name, annotation, value)


def _misfit(name: str, annotation: Any, value: object) -> ArgumentError:
    return wrong_type(name, _expected(annotation), value, choices=_choices(annotation))


def wrong_type(
    name: str, expected: str, value: object, *, choices: Sequence[str] = ()
) -> ArgumentError:
    """The error for an argument of a type that it cannot have.

    Args:
        name: the argument.
        expected: what it can be, in words.
        value: what came.
        choices: the texts that it can be.
    """
    came = repr(value) if value is None or isinstance(value, bool) else shown(value)
    end = meant(value, choices) if isinstance(value, str) else "."
    return ArgumentError(name, f": expected {expected}, got {came}{end}")


def _types_of(function: Callable[..., Any], options: type | None) -> Mapping[str, Any]:
    """The types of what a function takes by name; those that only type checkers see are left out.

    Args:
        function: the function.
        options: as `checked` takes them.
    """
    found: dict[str, Any] = {} if options is None else dict(typing.get_type_hints(options))
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    names = _Names({**vars(builtins), **function.__globals__})
    for one in parameters:
        several = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if several or one.annotation is one.empty or one.name in found:
            continue
        annotation = one.annotation
        if isinstance(annotation, str):
            annotation = eval(annotation, {}, names)  # what the function's own file says
        found[one.name] = annotation
    return found


class _Names(dict[str, Any]):
    """What names in annotations stand for: anything where only type checkers know them."""

    def __missing__(self, name: str) -> Any:
        return Any


def _fits(value: object, annotation: Any) -> bool:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _ANYTHING or isinstance(annotation, TypeVar):
        return True
    if annotation is None:
        return value is None
    if origin is typing.Annotated:
        return _fits(value, arguments[0])
    if origin in _UNIONS:
        return any(_fits(value, option) for option in arguments)
    if origin is Literal:
        return any(value is one or (isinstance(value, str) and value == one) for one in arguments)
    if annotation is float or annotation is int:
        return is_number(value, whole=annotation is int)
    if origin is not None:
        return isinstance(origin, type) and _holds(value, origin, arguments)
    if not isinstance(annotation, type):
        return True  # a form that is used nowhere
    if getattr(annotation, "_is_protocol", False):
        # Looked for on the class: to ask an object for a property may take long.
        its = (name for name in vars(annotation) if not name.startswith("_"))
        own = getattr(value, "__dict__", {})
        return all(hasattr(type(value), name) or name in own for name in its)
    if annotation in (Sequence, Iterable):
        return _holds(value, annotation, ())
    return isinstance(value, annotation)


def is_number(value: object, *, whole: bool = False) -> bool:
    """Whether a value is a number: Python's or NumPy's, and no truth value."""
    kind = type(value)
    if kind is bool or hasattr(kind, "__len__"):  # an array is no number, whatever it holds
        return False
    return hasattr(kind, "__index__") or (not whole and hasattr(kind, "is_integer"))


def _holds(value: object, origin: type, arguments: Sequence[Any]) -> bool:
    """Whether a container is one, and what it holds as far as it can be looked at twice."""
    if isinstance(value, str | bytes) or not isinstance(value, origin):
        return False
    if isinstance(value, Mapping):
        if not issubclass(origin, Mapping):
            return False  # its keys are no list
        return not arguments or all(
            _fits(key, arguments[0]) and _fits(one, arguments[1]) for key, one in value.items()
        )
    if arguments and isinstance(value, Sequence):
        return all(_fits(one, arguments[0]) for one in value)
    return True


def _expected(annotation: Any) -> str:
    """A type in words."""
    found = list(dict.fromkeys(_parts(annotation)))
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"


def _choices(annotation: Any) -> list[str]:
    """The texts that a type admits by name."""
    if get_origin(annotation) is Literal:
        return [option for option in get_args(annotation) if isinstance(option, str)]
    parts = get_args(annotation) if get_origin(annotation) in _UNIONS else ()
    return [choice for part in parts for choice in _choices(part)]


def _plural(word: str) -> str:
    """Several of what a word names; names and values stay as they are."""
    article, _, noun = word.partition(" ")
    return f"{noun}s" if article in ("a", "an") and " " not in noun.removeprefix("whole ") else word


def _parts(annotation: Any) -> list[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return [next((one for one in arguments if isinstance(one, str)), _expected(arguments[0]))]
    if origin in _UNIONS:
        return [word for option in arguments for word in _parts(option)]
    if origin is Literal:
        return [repr(option) for option in arguments]
    if origin is not None and any(origin is one for one in (Sequence, Iterable, list, tuple)):
        inner = arguments[:1]
        if not inner or inner[0] in _ANYTHING or isinstance(inner[0], TypeVar):
            return ["a list"]
        return [f"a list of {' or '.join(map(_plural, _parts(inner[0])))}"]
    if origin is not None and origin in (Mapping, dict):
        return ["a mapping"]
    if annotation in _ANYTHING or isinstance(annotation, TypeVar):
        return ["anything"]
    name = _WORDS.get(origin or annotation)
    if name is None:
        called = getattr(origin or annotation, "__name__", str(annotation))
        called = called.removeprefix("nd")  # NumPy's arrays
        name = f"{'an' if called[0] in 'AEIOUa' else 'a'} {called}"
    return [name]
