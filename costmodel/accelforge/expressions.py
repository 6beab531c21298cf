"""Expressions in AccelForge's files: numbers such as `1024*64*8`, sets such as `input | output`.

Of Python's syntax only what stands here is read; nothing is executed.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping

from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

ROLES = frozenset({"input", "weight", "output"})
_LONGEST = 200
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_SETS: Mapping[type[ast.operator], Callable[[frozenset[str], frozenset[str]], frozenset[str]]] = {
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Sub: operator.sub,
}


def number(value: object, place: str, word_bits: int) -> float:
    """What an expression of numbers is worth.

    Args:
        value: a number or text; `weight.bits_per_value` is `word_bits`, and each role has a tensor.
        place: where it stands, which messages start with.
        word_bits: bits of a value of any tensor.

    Raises:
        ConfigError: it is none, or it is below 0 or no number.
    """
    try:
        found = _number(_parsed(value), word_bits)
    except (ValueError, SyntaxError, ZeroDivisionError, OverflowError, RecursionError):
        raise ConfigError(
            f"{place}: expected a number, or +, -, *, / of numbers, got {shown(value)}."
        ) from None
    if not found >= 0:
        raise ConfigError(f"{place}: expected at least 0, got {shown(value)}.")
    return found


def roles(value: object, place: str, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The roles that an expression of sets of tensors stands for.

    Args:
        value: text such as `~MainMemory` or `input | output`.
        place: where it stands.
        known: roles that a level holds, by its name.

    Raises:
        ConfigError: it is none.
    """
    names = {"All": ROLES, "Nothing": frozenset(), "Intermediates": frozenset(), **known}
    names |= {role: frozenset({role}) for role in ROLES}
    return tensor_set(value, place, names, ROLES)


def tensor_set(
    value: object, place: str, names: Mapping[str, frozenset[str]], everything: frozenset[str]
) -> frozenset[str]:
    """The tensors that an expression stands for.

    Args:
        value: text such as `~(input | output)`, also `Inputs if len(All) == 2 else Nothing`.
        place: where it stands.
        names: the sets that it may name.
        everything: what `~` is the rest of.

    Raises:
        ConfigError: it is no such expression.
    """
    try:
        return _set(_parsed(value), names, everything)
    except (ValueError, SyntaxError, RecursionError):
        raise ConfigError(
            f"{place}: expected {', '.join(names)}, or ~, |, & and - of them, got {shown(value)}."
        ) from None


def _parsed(value: object) -> ast.expr:
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(text) > _LONGEST:
        raise ValueError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's syntax, which the file's author need not know
        return ast.parse(text.strip(), mode="eval").body


def _number(node: ast.expr, word_bits: int) -> float:
    match node:
        case ast.Constant(value=int() | float() as found) if not isinstance(found, bool):
            return float(found)
        case ast.Name(id="inf"):
            return math.inf
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner, word_bits)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_number(left, word_bits), _number(right, word_bits))
        case ast.Attribute(value=ast.Name(id=role), attr="bits_per_value") if role in ROLES:
            return float(word_bits)
        case ast.IfExp(test=ast.Name(id=role), body=body) if role in ROLES:
            return _number(body, word_bits)
    raise ValueError


def _set(
    node: ast.expr, names: Mapping[str, frozenset[str]], everything: frozenset[str]
) -> frozenset[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="tensors"):
            if name in names:
                return names[name]
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return everything - _set(inner, names, everything)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SETS:
            return _SETS[type(op)](_set(left, names, everything), _set(right, names, everything))
        case ast.IfExp(
            test=ast.Compare(
                left=ast.Call(func=ast.Name(id="len"), args=[counted], keywords=[]),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=int() as count)],
            ),
            body=body,
            orelse=other,
        ):
            held = len(_set(counted, names, everything)) == count
            return _set(body if held else other, names, everything)
    raise ValueError
