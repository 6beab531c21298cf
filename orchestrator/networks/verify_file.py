"""Proves a certificate again, be it a mapping's, a network's or a design's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from costmodel.exact.certificate import Certificate
from mapspace.arguments import wrong_type
from mapspace.bounded_reading import read_json
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.design.certificate import FORMAT as DESIGN_FORMAT
from orchestrator.design.certificate import DesignCertificate, parse_design, verify_design
from orchestrator.networks.network_certificate import (
    FORMAT,
    NetworkCertificate,
    parse_network,
    verify_network,
)
from orchestrator.networks.resident_certificate import FORMAT as RESIDENT_FORMAT
from orchestrator.networks.resident_certificate import (
    ResidentCertificate,
    parse_resident,
    verify_resident,
)
from orchestrator.networks.walk_again import walk_again
from orchestrator.proofs.certificates import Verification, verify_certificate, verify_file

AnyCertificate = Certificate | NetworkCertificate | ResidentCertificate | DesignCertificate


def verify_any(
    certificate: AnyCertificate, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves the claims of a certificate again.

    Args:
        certificate: of a mapping, a network or a design.
        independent: see `orchestrator.proofs.certificates.verify_certificate`; of a network with
            tensors that stay on the chip, that what is claimed is counted again. Of no others.
        seconds: likewise.

    Raises:
        ConfigError: its problem cannot be treated here, or an argument does not fit it.
    """
    if isinstance(certificate, Certificate):
        return verify_certificate(certificate, independent=independent, seconds=seconds)
    walked = independent and isinstance(certificate, ResidentCertificate)
    if independent and not walked and isinstance(certificate, AnyCertificate):
        raise ArgumentError(
            "independent", ": the second program looks at single mappings and at cascades."
        )
    if seconds is not None and not seconds > 0:
        raise ArgumentError("seconds", f": expected more than 0, got {seconds}.")
    if isinstance(certificate, DesignCertificate):
        return verify_design(certificate, seconds=seconds)
    if isinstance(certificate, ResidentCertificate):
        found = verify_resident(certificate, seconds=seconds)
        look = walk_again(certificate) if walked and found.holds else None
        return replace(found, independent=look)
    if not isinstance(certificate, NetworkCertificate):
        raise wrong_type(
            "certificate", "a certificate, its file, or a result that was proven", certificate
        )
    return verify_network(certificate, seconds=seconds)


def verify_any_file(
    path: Path, *, independent: bool = False, seconds: float | None = None
) -> Verification:
    """Proves the claims of a certificate's file again.

    Args:
        path: the certificate.
        independent: see `verify_any`.
        seconds: likewise.

    Raises:
        ConfigError: the file is none, is no certificate, or its problem cannot be treated here.
    """
    data = read_json(path)
    name = data.get("format") if isinstance(data, dict) else None
    certificate: AnyCertificate
    if name == FORMAT:
        certificate = parse_network(data, str(path))
    elif name == RESIDENT_FORMAT:
        certificate = parse_resident(data, str(path))
    elif name == DESIGN_FORMAT:
        certificate = parse_design(data, str(path))
    else:
        return verify_file(path, independent=independent, seconds=seconds)
    try:
        return verify_any(certificate, independent=independent, seconds=seconds)
    except ArgumentError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
