"""Components that the shipped tables do not have: the library that made them is asked itself.

`pip install 'mapspace[components]'` on Python 3.12 brings hwcomponents with CACTI. Where it is not
there, the table's answer stands.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from costmodel.machines.component_tables import Figures, NotInTableError
from mapspace.extras import install, is_installed

PACKAGE = "hwcomponents_cacti"


def from_library(kind: str, wanted: Mapping[str, float], missing: NotInTableError) -> Figures:
    """What hwcomponents says of a component.

    Args:
        kind: `sram`, `registers` or `int-mac`.
        wanted: as the function of that name in `component_tables` takes it.
        missing: why the table does not have it.

    Raises:
        NotInTableError: the library is not installed, or has no answer either.
    """
    if not is_installed(PACKAGE):
        remedy = f"{install('components')} (Python 3.12) asks the library itself"
        raise NotInTableError(f"{missing} {remedy}.") from missing
    try:
        return _asked(kind, tuple(wanted.items())).rounded()
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise NotInTableError(f"{missing} hwcomponents has no answer: {said}") from error


@cache
def _asked(kind: str, wanted: tuple[tuple[str, float], ...]) -> Figures:
    given: dict[str, Any] = dict(wanted)
    node = given.pop("node_nm") * 1e-9
    # Its models print what they do.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        if kind == "sram":
            model = importlib.import_module(PACKAGE).SRAM(
                tech_node=node,
                size=given["bits"],
                width=given["width_bits"],
                n_rw_ports=given["ports"],
                n_banks=given["banks"],
            )
            energies = model.read_energy, model.write_energy
            return _figures(energies, model, "hwcomponents-cacti")
        logic = importlib.import_module("hwcomponents_library.library.aladdin")
        if kind == "registers":
            model = logic.AladdinRegister(node, size=given["bits"])
            energies = (
                model.read(bits_per_action=given["width_bits"]).energy,
                model.write(bits_per_action=given["width_bits"]).energy,
            )
        else:
            model = logic.AladdinIntMAC(node, given["adder_bits"], given["multiplier_bits"])
            energies = model.mac().energy, model.mac().energy
        return _figures(energies, model, "hwcomponents-library")


def _figures(energies: tuple[float, float], model: Any, package: str) -> Figures:
    from importlib.metadata import version

    read, write = energies
    source = f"library {package} {version(package)}"
    return Figures(read * 1e12, write * 1e12, model.area * 1e6, float(model.leak_power), source)
