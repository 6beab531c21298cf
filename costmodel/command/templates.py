"""What templates know of a mapping: its record, loops, and its text in the forms of other tools."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from costmodel.command.settings import Simulator
from costmodel.loop_nest.nest_c import c_text
from costmodel.loop_nest.nest_loops import Nest, nest_of
from costmodel.loop_nest.nest_texts import map_text, pseudo_text
from costmodel.timeloop.writing import files_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import unknown_name

FORMS: Mapping[str, Callable[[dict[str, Any], Nest], Any]] = {
    "record": lambda record, nest: record,
    "name": lambda record, nest: nest.problem.name,
    "machine": lambda record, nest: nest.arch.name,
    "dims": lambda record, nest: dict(nest.problem.dims),
    "levels": lambda record, nest: _levels(nest),
    "factors": lambda record, nest: _factors(nest),
    "timeloop": lambda record, nest: files_text(record),
    "map": lambda record, nest: map_text(nest),
    "pseudo": lambda record, nest: pseudo_text(nest),
    "c": lambda record, nest: c_text(nest),
}
"""What a template may name, made only where one does."""


class Templates:
    """The templates of a simulator.

    Attributes:
        names: what they name of a mapping.
    """

    def __init__(self, simulator: Simulator) -> None:
        """Reads them.

        Raises:
            ConfigError: one is no template, or names what there is not; its key is named.
        """
        environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
        environment.filters |= {"tojson": json.dumps, "product": math.prod}
        self.names: set[str] = set()

        def read(text: str, where: str) -> jinja2.Template:
            try:
                self.names |= (found := meta.find_undeclared_variables(environment.parse(text)))
                unknown = sorted(found - set(FORMS))
                if unknown:
                    raise ConfigError(f"{where}: {unknown_name('name', unknown[0], list(FORMS))}")
                return environment.from_string(text)
            except jinja2.TemplateSyntaxError as error:
                raise ConfigError(f"{where}, line {error.lineno}: {error.message}") from None

        self._run = [read(text, f"run[{i}]") for i, text in enumerate(simulator.run)]
        self._files = {name: read(text, f"files.{name}") for name, text in simulator.files.items()}

    def filled(self, record: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        """The command's words and the files' contents for a mapping.

        Args:
            record: it as a record of a whole nest.

        Raises:
            ConfigError: a template asks for what a mapping has not.
        """
        nest = nest_of(record)
        known = {name: FORMS[name](record, nest) for name in self.names}

        def fill(template: jinja2.Template, where: str) -> str:
            try:
                return template.render(known)
            except Exception as error:  # whatever a user's template does
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ConfigError(f"{where}: {reason.rstrip('.')}.") from None

        words = [fill(template, f"run[{i}]") for i, template in enumerate(self._run)]
        files = {name: fill(text, f"files.{name}") for name, text in self._files.items()}
        return words, files


def _levels(nest: Nest) -> list[dict[str, Any]]:
    """Levels, outermost first: name, what is kept with its words, loops in time and across."""
    return [
        {
            "name": level.name,
            "keep": list(level.keep),
            "tiles": dict(zip(level.keep, level.tiles, strict=True)),
            "temporal": [{"dimension": x.dimension, "factor": x.factor} for x in level.temporal],
            "spatial": [
                {"dimension": x.dimension, "factor": x.factor, "axis": x.axis}
                for x in level.spatial
            ],
        }
        for level in nest.levels
    ]


def _factors(nest: Nest) -> dict[str, dict[str, dict[str, int]]]:
    """Factors by level, `temporal` or `spatial`, and dimension; 1 where there is no loop."""
    found = {}
    for level in nest.levels:
        parts = {}
        for what, loops in (("temporal", level.temporal), ("spatial", level.spatial)):
            parts[what] = dict.fromkeys(nest.problem.dims, 1)
            parts[what] |= {loop.dimension: loop.factor for loop in loops}
        found[level.name] = parts
    return found
