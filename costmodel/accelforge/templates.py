"""What of Jinja's templates AccelForge's files are read with: values that are filled in.

`{{NAME}}` stands for a number that is given, and `{% set NAME = NAME | default(4) %}` gives it if
nobody else does (a name such as `inf` likewise). Nothing else is read; nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_SET = re.compile(
    r"""\{%\s*set\s+(\w+)\s*=\s*\1\s*\|\s*default\(\s*"?(\w[\w.]{0,30})"?\s*\)\s*%\}"""
)
_VALUE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ANY = re.compile(r"\{[{%].{0,60}")


def filled(text: str, path: Path, sizes: Mapping[str, int]) -> str:
    """A file's text with its sizes.

    Args:
        text: what the file holds.
        path: the file, which messages start with.
        sizes: what is given, such as `BATCH_SIZE`.

    Raises:
        ConfigError: a size that is not given, or anything else of a template.
    """
    known = {match[1]: match[2] for match in _SET.finditer(text)} | dict(sizes)
    text = _VALUE.sub(lambda match: str(known.get(match[1], match[0])), _SET.sub("", text))
    left = _ANY.search(text)
    if left is None:
        return text
    if missing := _VALUE.match(left[0]):
        name = missing[1]
        how = "give --batch" if name == "BATCH_SIZE" else "write its number in"
        raise ConfigError(f"{path}: a template's {{{{{name}}}}} without a value; {how}.")
    raise ConfigError(f"{path}: a template ({shown(left[0])}); give the file that it makes.")
