"""A mapping as a C function, whose loops are those of the mapping."""

from __future__ import annotations

import re

from costmodel.loop_nest.nest_loops import Nest, NestLevelLoops
from costmodel.loop_nest.nest_texts import holding, parts, statement, variables
from mapspace.errors import ConfigError

_KEYWORDS = frozenset(
    {
        "MIN", "auto", "break", "case", "char", "const", "continue", "default", "do", "double",
        "element", "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long",
        "main", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
    }
)  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def c_text(nest: Nest) -> str:
    """A mapping as a C function (C99) of the operation's arrays, with exactly these loops.

    Arrays have the extents of the tensors' axes, which start at the least index that the operation
    reads; the function adds to the output.

    Raises:
        ConfigError: two outputs or no input, which are no sum of products, or a name that is none
            in C.
    """
    problem = nest.problem
    inputs = [tensor for tensor in problem.tensors if not tensor.output]
    outputs = [tensor for tensor in problem.tensors if tensor.output]
    if len(outputs) != 1 or not inputs:
        raise ConfigError(
            f"{problem.name}: a C function has one output and at least one input, got "
            f"{len(outputs)} and {len(inputs)}."
        )
    for name in (*problem.dims, *(tensor.name for tensor in problem.tensors)):
        if _IDENTIFIER.fullmatch(name) is None or name in _KEYWORDS:
            raise ConfigError(f"{name}: expected a name that C allows.")
    arguments = []
    for tensor in (*inputs, *outputs):
        extents = [
            1 + sum(abs(c) * (problem.dims[name] - 1) for name, c in axis) for axis in tensor.axes
        ]
        whose = "" if tensor.output else "const "
        shape = "".join(f"[{extent}]" for extent in extents or [1])
        arguments.append(f"{whose}element {tensor.name}{shape}")
    called = re.sub(r"\W", "_", problem.name, flags=re.ASCII)
    called = called if _IDENTIFIER.fullmatch(called) else f"nest_{called}"
    taken = {called, *(tensor.name for tensor in problem.tensors)}
    lines: list[str] = []
    depth, point = 1, dict.fromkeys(problem.dims, "0")
    for part in parts(nest, variables(nest, _KEYWORDS | taken)):
        if isinstance(part, NestLevelLoops):
            lines.append("    " * depth + f"/* {holding(part).replace('*/', '* /')} */")
            continue
        end = str(part.span) if part.begin == "0" else f"{part.begin} + {part.span}"
        end = f"MIN({end}, {part.size})" if part.clipped else end
        variable, step = part.variable, part.loop.step
        forward = f"++{variable}" if step == 1 else f"{variable} += {step}"
        across = f" /* across {part.loop.axis} */" if part.loop.axis else ""
        lines.append(
            "    " * depth
            + f"for (long {variable} = {part.begin}; {variable} < {end}; {forward}){across}"
        )
        point[part.loop.dimension] = variable
        depth += 1
    lines.append("    " * depth + statement(nest, point, alone="[0]") + ";")
    minimum = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n" if nest.imperfect else ""
    joined = ",\n    ".join(arguments)
    title = f"{problem.name} on {nest.arch.name}".replace("*/", "* /")
    return (
        f"/* {title} */\ntypedef double element;\n{minimum}\n"
        f"void {called}(\n    {joined})\n{{\n" + "\n".join(lines) + "\n}\n"
    )
