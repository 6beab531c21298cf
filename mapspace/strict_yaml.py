"""Strict loading: a YAML file or mapping becomes a checked object, or one line that says why not.

`load_yaml` refuses what YAML would let pass in silence (keys given twice, keys that are no text),
`validate` turns what pydantic finds into one `ConfigError` line: where, and of every problem the
path of the key, what was expected, what came; for an unknown key, the known ones.
"""

from __future__ import annotations

import operator
import re
import reprlib
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from mapspace.bounded_reading import LONGEST_NUMBER, check_yaml, read_text
from mapspace.errors import ConfigError, MapspaceError
from mapspace.near_names import meant

Model = TypeVar("Model", bound=BaseModel)

LONGEST_VALUE_SHOWN = 60
LONGEST_PATH_SHOWN = 200

# Never longer than it is shown, whatever the value is, and however many times it holds itself.
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 4
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = LONGEST_VALUE_SHOWN
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 4 * LONGEST_VALUE_SHOWN


class StrictModel(BaseModel):
    """Base of everything that is read from a file: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def plain_integer(value: object) -> object:
    """NumPy's integers become Python's; everything else is left for the strict check."""
    if type(value) is int or isinstance(value, bool) or not hasattr(value, "__index__"):
        return value
    return operator.index(value)


def plain_scalar(value: Any) -> Any:
    """A NumPy scalar as Python's; anything else as it is."""
    kind = type(value)
    is_one = kind.__module__ == "numpy" and kind.__name__ != "ndarray" and hasattr(value, "item")
    return value.item() if is_one else value


def _plain(value: Any) -> Any:
    """Likewise, and those in mappings and lists."""
    if type(value) is dict:
        return {plain_scalar(key): _plain(one) for key, one in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else plain_scalar(value)


Size = Annotated[int, BeforeValidator(plain_integer), Field(strict=True, ge=1, lt=2**62)]
"""A whole number of at least 1 that 64 bits hold; `true`, `4.0` and `"4"` are refused."""

Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
"""Of random numbers; results keep it as a 64-bit number."""

LEAST_NUMBER = 1e-30


def _not_vanishing(value: float) -> float:
    """A number that overflows whatever is divided by it is a slip."""
    if value < LEAST_NUMBER:
        raise ValueError(f"expected at least {LEAST_NUMBER:g}, got {value:g}.")
    return value


PositiveNumber = Annotated[
    float, Field(strict=True, gt=0, allow_inf_nan=False), AfterValidator(_not_vanishing)
]
"""A finite number above 0, and not by so little that it could as well be none."""

NonNegativeNumber = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
"""A finite number of at least 0."""

_LINE = r"^\S(.*\S)?$"
_FILE_NAME = r"^[^\s./\p{Cc}]([^/\p{Cc}]*[^\s/\p{Cc}])?$"
_IDENTIFIER = r"^[A-Za-z][A-Za-z0-9_]*$"

Name = Annotated[str, Field(strict=True, pattern=_LINE)]
"""One line of text, neither empty nor surrounded by blanks."""

FileName = Annotated[str, Field(strict=True, pattern=_FILE_NAME, max_length=200)]
"""A name that becomes a file or folder where it is told to, and leads nowhere else."""

Identifier = Annotated[str, Field(strict=True, pattern=_IDENTIFIER)]
"""A letter, then letters, digits and underscores: dimensions and tensors in formulas."""


_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_SafeLoader):  # type: ignore[misc, valid-type]
    """The safe loader, which also refuses a key given twice and a key that is no text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if key_node.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    problem=f"a key must be text, got {_source_text(key_node)}; quote it",
                    problem_mark=key_node.start_mark,
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key_node.value!r} is given twice",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key_node.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def _bounded_number(loader: Any, node: yaml.ScalarNode) -> int | float:
    """A number of as many digits as anybody writes: YAML 1.1 takes time beyond that (1:1:1:...)."""
    if len(node.value) > LONGEST_NUMBER:
        raise yaml.constructor.ConstructorError(
            problem=f"expected a number of at most {LONGEST_NUMBER} characters",
            problem_mark=node.start_mark,
        )
    if node.tag.endswith("int"):
        return int(_SafeLoader.construct_yaml_int(loader, node))
    return float(_SafeLoader.construct_yaml_float(loader, node))


for _kind in ("int", "float"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _bounded_number)


class _TaggedLoader(_StrictLoader):
    """Also takes mappings with a tag of their own, which becomes their key `!`."""


def _tagged(loader: Any, tag: str, node: yaml.Node) -> dict[Hashable, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(
            problem=f"expected a mapping after !{tag}", problem_mark=node.start_mark
        )
    content: dict[Hashable, Any] = loader.construct_mapping(node, deep=True)
    return {"!": tag, **content}


_TaggedLoader.add_multi_constructor("!", _tagged)


def _source_text(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else "a list or mapping"


def load_yaml(path: str | Path, *, tags: bool = False, text: str | None = None) -> dict[str, Any]:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: the file.
        tags: whether mappings may have tags (`!Component`), which become their key `!`.
        text: what the file says, where something was filled in; None: what it holds.

    Returns:
        The mapping, of plain Python values.

    Raises:
        ConfigError: the file cannot be read, is no YAML, is no mapping, gives a key twice, has a
            key that is no text, or goes beyond the limits of `mapspace.bounded_reading`. The
            message names the file, and the line where there is one.
    """
    data = _yaml(path, _TaggedLoader if tags else _StrictLoader, text)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of keys to values, got {shown(data)}.")
    return data


def load_yaml_list(path: str | Path) -> list[Any]:
    """Reads a YAML file whose top level is a list.

    Raises:
        ConfigError: it is no list, or as `load_yaml`.
    """
    data = _yaml(path, _StrictLoader)
    if not isinstance(data, list):
        raise ConfigError(f"{path}: expected a list, got {shown(data)}.")
    return data


def _yaml(path: str | Path, loader: type[yaml.SafeLoader], text: str | None = None) -> Any:
    text = read_text(Path(path)) if text is None else text
    try:
        check_yaml(text, str(path))
        # Both are SafeLoaders: they build plain values only.
        return yaml.load(text, Loader=loader)
    except ConfigError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        if mark and text[mark.index : mark.index + 1] == "\t":
            raise ConfigError(f"{path}, line {mark.line + 1}: a tab; YAML wants spaces.") from error
        problem = error.problem or error.context or ""
        if problem.startswith("found unknown escape character"):
            # Most often a regular expression.
            problem = "a backslash in double quotes; single quotes leave it as it is"
        raise ConfigError(f"{path}{place}: {problem}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date such as 2024-13-45 that YAML recognises and Python refuses.
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}.") from error


def validate(
    model_class: type[Model],
    data: object,
    where: str,
    kind: type[MapspaceError] = ConfigError,
) -> Model:
    """Checks data against a pydantic model.

    Where a field may be one of several models, tell them apart by a discriminator: without one
    pydantic cannot know which was meant, and the message may speak of the wrong one.

    Args:
        model_class: what to build.
        data: usually what `load_yaml` returned.
        where: what the message starts with, such as the file's name; empty: the key's path.
        kind: the error to raise.

    Returns:
        The model.

    Raises:
        kind: one line with all problems, unknown keys before all others.
    """
    try:
        with suppress(ValidationError):
            return model_class.model_validate(data)
        return model_class.model_validate(_plain(data))
    except ValidationError as error:
        prefix = f"{where}: " if where else ""
        raise kind(prefix + _explain(model_class, data, error)) from error


def unknown_name(kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> ConfigError:
    """The error for a name that is not in a table.

    Args:
        kind: what the name stands for, such as `accelerator`.
        name: what came.
        known: the names there are.
        remedy: what to say in place of the whole list, where that is long.
    """
    known = sorted(known)
    hint = meant(name, known, count=5 if remedy else 1)
    return ConfigError(
        f"Unknown {kind} {name!r}{hint} " + (remedy or f"Known: {', '.join(known)}.")
    )


def shown(value: object) -> str:
    """A value as an error message shows it: on one line and short."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(_SHORT.repr(value).split())
    if len(text) > LONGEST_VALUE_SHOWN:
        text = text[:LONGEST_VALUE_SHOWN] + "..."
    return text


_NUMBER_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}

_EXPECTED = {
    **_NUMBER_TYPES,
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "string_too_long": "at most {max_length} characters",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
}

_PATTERNS = {
    _LINE: "one line of text, neither empty nor surrounded by blanks",
    _FILE_NAME: "a name that a file can have (one line, no '/', no dot or blank first)",
    _IDENTIFIER: "a letter followed by letters, digits and underscores",
}


_MOST_SAID = 8

Location = tuple[int | str, ...]
"""Where something is wrong, as pydantic says it."""


def _explain(model_class: type[BaseModel], data: object, error: ValidationError) -> str:
    """All that is wrong, unknown keys first, each once."""
    problems = _apart(data, error.errors(include_url=False))
    # Missing keys of one value are one text. There may be a hundred thousand of them.
    beside: dict[Location, list[ErrorDetails]] = {}
    apart: dict[tuple[bool, Location], ErrorDetails] = {}
    for one in problems:
        beside.setdefault(one["loc"][:-1], []).append(one)
        missing = one["type"] == "missing"
        apart.setdefault((missing, one["loc"][:-1] if missing else one["loc"]), one)
    told = list(apart.values())[:_MOST_SAID]
    texts = dict.fromkeys(_said(model_class, data, one, beside[one["loc"][:-1]]) for one in told)
    more = len(apart) - len(told)
    return " ".join([*texts, *([f"And {more} more."] if more > 0 else [])])


def _apart(data: object, problems: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Problems that are several: of one of several forms that a value may have, the first's alone.

    A key that is missing beside an unknown one is most often the same slip.
    """
    found = sorted(problems, key=lambda one: one["type"] != "extra_forbidden")
    slips = {one["loc"][:-1] for one in found if one["type"] == "extra_forbidden"}
    forms: dict[Location, int | str] = {}
    said: set[str] = set()
    around: set[str] = set()
    apart = []
    for one in found:
        location, missing = one["loc"], one["type"] == "missing"
        if missing and location[:-1] in slips:
            continue
        branches = _branches(data, location[:-1] if missing else location)
        if any(forms.setdefault(where, form) != form for where, form in branches):
            continue
        # A key of a value that is wrong as a whole, or more of the same value.
        path = _path(data, location)
        enclosing = [path[:end] for end, letter in enumerate(path) if letter in ".["]
        if not missing and (path in said or path in around or not said.isdisjoint(enclosing)):
            continue
        said.add(path)
        around.update(enclosing)
        apart.append(one)
    return apart


def _branches(data: object, location: Location) -> Iterator[tuple[Location, int | str]]:
    """Where a location goes on with what pydantic calls one of several forms of a value."""
    for depth, part in enumerate(location):
        if isinstance(part, int) and isinstance(data, Sequence) and not isinstance(data, str):
            data = data[part] if part < len(data) else None
        elif isinstance(data, Mapping) and part in data:
            data = data[part]
        else:
            yield location[:depth], part


def _said(
    model_class: type[BaseModel], data: object, one: ErrorDetails, beside: list[ErrorDetails]
) -> str:
    """What is wrong at one place, beside what is wrong with other keys of the same value."""
    location = one["loc"]
    if one["type"] == "extra_forbidden":
        known = _keys_at(model_class, location[:-1])
        text = f"{_path(data, location)}: unknown key{meant(str(location[-1]), known)}"
        return f"{text} Known keys: {', '.join(known)}." if one is beside[0] else text
    if one["type"] == "missing":
        names = [str(problem["loc"][-1]) for problem in beside if problem["type"] == "missing"]
        parent = _path(data, location[:-1], there=True)
        known = _keys_at(model_class, location[:-1])
        return (
            f"{parent}: " if parent else ""
        ) + f"missing {', '.join(names)}. Known keys: {', '.join(known)}."
    path, sentence = _path(data, location), _sentence(one)
    # What a model says of one of its keys goes on with the key's path.
    own = sentence.partition(": ")[0] in _keys_at(model_class, location)
    return (path + ("." if own else ": ") if path else "") + sentence


def _sentence(problem: ErrorDetails) -> str:
    """What was expected and what came, for one of pydantic's errors."""
    context = {
        key: f"{bound:g}" if isinstance(bound, float) else bound
        for key, bound in problem.get("ctx", {}).items()
    }
    if problem["type"] in ("value_error", "assertion_error"):
        return str(context["error"])
    value = problem["input"]
    expected = _EXPECTED.get(problem["type"])
    if problem["type"] == "string_pattern_mismatch":
        expected = _PATTERNS.get(context["pattern"], "text that matches {pattern}")
    if expected is None:
        return f"{problem['msg']}, got {shown(value)}."
    sentence = f"expected {expected.format(**context)}, got {shown(value)}"
    if problem["type"] in _NUMBER_TYPES and isinstance(value, str) and _looks_like_number(value):
        # YAML 1.1 reads 2e2 as text.
        number = int(float(value)) if problem["type"].startswith("int") else float(value)
        sentence += f", which is text here (write {number!r} without quotes)"
    if problem["type"] == "literal_error" and isinstance(value, str):
        return sentence + meant(value, re.findall(r"'([^']*)'", context["expected"]))
    return sentence + "."


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)


def _looks_like_number(text: str) -> bool:
    # So short that a double can hold it, as a number of 310 digits cannot.
    short = len(text) <= LONGEST_NUMBER
    return short and re.fullmatch(_NUMBER, text) is not None


def _path(data: object, location: Sequence[int | str], *, there: bool = False) -> str:
    """Writes a location as `levels[L2].banks`: an entry that has a name goes by it.

    Its last part may be a key that is not in the data, unless it has to be there.
    """
    path = ""
    for depth, part in enumerate(location):
        last = depth == len(location) - 1 and not there
        if isinstance(part, int):
            if not isinstance(data, Sequence) or isinstance(data, str):
                continue
            data = data[part] if part < len(data) else None
            named = data.get("name") if isinstance(data, Mapping) else None
            path += f"[{named if named and isinstance(named, str) else part}]"
        elif isinstance(data, Mapping) and (part in data or last):
            data = data.get(part)
            path += f".{part}" if path else part
        # Anything else pydantic added: the branch of a union, or "[key]" after a bad key.
    path = " ".join(path.split())
    return path if len(path) <= LONGEST_PATH_SHOWN else f"{path[:LONGEST_PATH_SHOWN]}..."


def _keys_at(model_class: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """The keys that the models at a location know, in the order of their declaration."""
    reached: list[Any] = [model_class]
    for part in location:
        inner = [found for annotation in reached for found in _inside(annotation, part)]
        # A part that leads nowhere is the name that pydantic gives a branch of a union.
        reached = inner or reached
    models = [model for annotation in reached for model in _models(annotation)]
    branch = [model for model in models if location and _is_branch(model, location[-1])]
    keys = [
        field.alias or name
        for model in branch or models
        for name, field in model.model_fields.items()
        if not field.exclude  # what a model keeps for itself
    ]
    return list(dict.fromkeys(keys))


def _inside(annotation: Any, part: int | str) -> list[Any]:
    """The annotations that one step into a location leads to."""
    annotation = _without_metadata(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found: list[Any] = [
            field.annotation
            for name, field in annotation.model_fields.items()
            if part in (name, field.alias)
        ]
        if found or annotation.model_config.get("extra") != "allow":
            return found
        # The values of any other key.
        return [*get_args(get_type_hints(annotation).get("__pydantic_extra__"))[1:]]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return [found for option in arguments for found in _inside(option, part)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [arguments[1]]
    if isinstance(origin, type) and issubclass(origin, Sequence) and isinstance(part, int):
        return [argument for argument in arguments if argument is not Ellipsis]
    return []


def _models(annotation: Any) -> list[type[BaseModel]]:
    annotation = _without_metadata(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        return [model for option in get_args(annotation) for model in _models(option)]
    return []


def _is_branch(model: type[BaseModel], tag: int | str) -> bool:
    """Whether pydantic calls a branch of a union so: by a literal that tells the branches apart."""
    return any(
        get_origin(field.annotation) is Literal and tag in get_args(field.annotation)
        for field in model.model_fields.values()
    )


def _without_metadata(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
