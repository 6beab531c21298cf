"""Proves the certificate of a file again, be it a mapping's, a network's or a design's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mapspace.bounded_reading import read_json
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.design.certificate import FORMAT as DESIGN_FORMAT
from orchestrator.design.certificate import parse_design, verify_design
from orchestrator.networks.network_certificate import FORMAT, parse_network, verify_network
from orchestrator.proofs.certificates import Verification, verify_file


def verify_any_file(
    path: Path, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves the claims of a certificate's file again.

    Args:
        path: the certificate, of a mapping, a network or a design.
        independent: see `orchestrator.proofs.certificates.verify_certificate`; of mappings alone.
        seconds: likewise.

    Raises:
        ConfigError: the file is none, is no certificate, or its problem cannot be treated here.
    """
    data = read_json(path)
    name = data.get("format") if isinstance(data, dict) else None
    if name not in (FORMAT, DESIGN_FORMAT):
        return verify_file(path, independent=independent, seconds=seconds)
    if independent:
        raise ArgumentError("independent", ": the second program looks at single mappings.")
    if seconds is not None and not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    again = (
        partial(verify_design, parse_design(data, str(path)))
        if name == DESIGN_FORMAT
        else partial(verify_network, parse_network(data, str(path)))
    )
    try:
        return again(seconds=seconds)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
