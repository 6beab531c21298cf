"""Tensors whose values have so many bits: what a workload's `bits` and `--bits` say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from costmodel.problems.affine import MOST_BITS, Bits, Workload
from mapspace.bounded_reading import LONGEST_NUMBER
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_ROLES = ("input", "weight", "output")
_BITS: TypeAdapter[int] = TypeAdapter(Bits)


def with_bits(workload: Workload, bits: Mapping[str, object], where: str = "bits") -> Workload:
    """A workload whose tensors' values have so many bits.

    Args:
        workload: the workload.
        bits: of a value, by tensor or by role (`input` or `inputs`, and so on); of a tensor its
            own name counts.
        where: what an error message starts with.

    Raises:
        ConfigError: a tensor or role that there is not, or no whole number from 1 to 256.
    """
    if not isinstance(bits, Mapping):
        raise ConfigError(f"{where}: expected bits by tensor or role, got {shown(bits)}.")
    ((found, _),) = layers_with_bits([(workload, 1)], bits, where)
    return found


def layers_with_bits(
    layers: Sequence[tuple[Workload, int]], bits: Mapping[str, object], where: str = "bits"
) -> list[tuple[Workload, int]]:
    """Layers, each with how often it occurs, whose tensors' values have so many bits.

    Args:
        layers: the layers.
        bits: as of `with_bits`; a tensor or role may be missing in some layers, not in all.
        where: what an error message starts with.

    Raises:
        ConfigError: as `with_bits`.
    """
    if not isinstance(bits, Mapping):
        raise ConfigError(f"{where}: expected bits by tensor or role, got {shown(bits)}.")
    for key, width in bits.items():
        try:
            _BITS.validate_python(width)
        except ValidationError:
            raise ConfigError(
                f"{where}.{key}: expected a whole number of bits from 1 to 256, got {shown(width)}."
            ) from None
        if not any(_meant(layer, key) for layer, _ in layers):
            known = dict(item for layer, _ in layers for item in layer.roles.items())
            said = ", ".join(f"{name} ({role})" for name, role in known.items())
            lacks = f"no tensor of {layers[0][0].name} is called so or has that role"
            if len(layers) > 1:
                lacks = "no tensor of any layer is called so or has that role"
            raise ConfigError(f"{where}: {lacks}: {shown(key)}; expected one of {said}.")
    return [(_changed(layer, bits), count) for layer, count in layers]


def _meant(workload: Workload, key: object) -> list[str]:
    """The tensors that a name or a role means."""
    roles = workload.roles
    if key in roles:
        return [str(key)]
    role = str(key).lower().removesuffix("s")
    return [name for name in roles if roles[name] == role]


def _changed(workload: Workload, bits: Mapping[str, object]) -> Workload:
    """A workload with bits that are found allowed."""
    found: dict[str, object] = {}
    # Names last: they overrule roles.
    for key in sorted(bits, key=lambda name: name in workload.roles):
        found |= dict.fromkeys(_meant(workload, key), bits[key])
    tensors = tuple(
        tensor.model_copy(update={"bits": found.get(tensor.name, tensor.bits)})
        for tensor in workload.tensors
    )
    return workload.model_copy(update={"tensors": tensors})


def check_words(workload: Workload, what: str) -> None:
    """Refuses values of so many bits where every value is taken for a word.

    Args:
        workload: the workload.
        what: takes them so, such as `marvel`.

    Raises:
        ConfigError: the tensors that have bits.
    """
    given = {tensor.name: tensor.bits for tensor in workload.tensors if tensor.bits is not None}
    if given:
        said = ", ".join(f"{name} of {width} bits" for name, width in given.items())
        raise ConfigError(f"{workload.name}: {what} takes every value for a word, got {said}.")


def read_bits(text: str) -> dict[str, int]:
    """Reads `weights=4,inputs=8`.

    Raises:
        ConfigError: a part that is no tensor or role with a whole number.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value.isdecimal() or not value.isascii():
            raise ConfigError(
                f"--bits: expected a tensor or role with its bits, such as weights=4, "
                f"got {shown(part)}."
            )
        if key in found:
            raise ConfigError(f"--bits: {key} is given twice.")
        if len(value) > LONGEST_NUMBER:
            raise ConfigError(
                f"--bits: {key}: expected at most {MOST_BITS} bits, got {shown(value)}."
            )
        found[key] = int(value)
    return found
