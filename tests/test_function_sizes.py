"""No function is longer than a screen, or takes more than can be told apart, but for a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from test_imports import MODULES

# Without the docstring.
MOST_LINES = 80
# But for `self` and `cls`.
MOST_ARGUMENTS = 8
# By name only, with defaults: whoever calls gives the few that are wanted.
OPTIONS = "options"
EXCEPTIONS = {
    "costmodel.maestro.on_chip_search.on_chip_search": OPTIONS,
    "searchers.evaluator.__init__": OPTIONS,
    "searchers.reinforcement.environment.__init__": OPTIONS,
    "surrogate.predictor.write": OPTIONS,
    "surrogate.stream.__init__": OPTIONS,
}


def function_sizes() -> Iterator[tuple[str, int, int]]:
    """Module and name, lines and arguments of every function."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            told = first.lineno - node.body[0].lineno
            names = node.args
            listed = [*names.posonlyargs, *names.args, *names.kwonlyargs]
            arguments = [name for name in listed if name.arg not in ("self", "cls")]
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - told
            yield f"{module}.{node.name}", lines, len(arguments)


def test_functions_are_short_and_take_few_arguments() -> None:
    large = {
        name: f"{lines} lines, {arguments} arguments"
        for name, lines, arguments in function_sizes()
        if lines > MOST_LINES or arguments > MOST_ARGUMENTS
    }
    assert large.keys() - EXCEPTIONS.keys() == set(), large
    assert EXCEPTIONS.keys() - large.keys() == set(), "exceptions that are none any more"
