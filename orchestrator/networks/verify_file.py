"""Proves the certificate of a file again, be it a mapping's or a network's."""

from __future__ import annotations

from pathlib import Path

from mapspace.bounded_reading import read_json
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.networks.network_certificate import FORMAT, parse_network, verify_network
from orchestrator.proofs.certificates import Verification, verify_file


def verify_any_file(
    path: Path, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves the claims of a certificate's file again.

    Args:
        path: the certificate, of a mapping or of a network.
        independent: see `orchestrator.proofs.certificates.verify_certificate`; not of a network.
        seconds: likewise.

    Raises:
        ConfigError: the file is none, is no certificate, or its problem cannot be treated here.
    """
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return verify_file(path, independent=independent, seconds=seconds)
    if independent:
        raise ArgumentError("independent", ": the second program looks at single mappings.")
    if seconds is not None and not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    certificate = parse_network(data, str(path))
    try:
        return verify_network(certificate, seconds=seconds)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
