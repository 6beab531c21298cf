"""Accelerators: presets, files, extension and every refusal."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from costmodel.machines.accelerators import Accelerator, Level, accelerator, accelerator_names
from mapspace.errors import ConfigError

SMALL: dict[str, Any] = {
    "name": "small",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 64, "fanout": 4},
    ],
}


def small(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SMALL), **changes}


def small_level(position: int, **changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(SMALL)
    data["levels"][position].update(changes)
    return data


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        accelerator(data)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_presets_are_the_designs() -> None:
    assert set(accelerator_names()) >= {
        "mindmappings",
        "mindmappings-released",
        "mm256",
        "mm256-bw",
        "mm256-bypass",
        "mm256-bw-bypass",
        "eyeriss-168",
        "edge-1024",
        "cpu-avx512",
    }


@pytest.mark.parametrize("name", accelerator_names())
def test_every_preset_loads_under_its_own_name(name: str) -> None:
    assert accelerator(name).name == name


def test_presets_are_all_different() -> None:
    assert len({accelerator(name).hash for name in accelerator_names()}) == len(accelerator_names())


def test_mm256_holds_the_numbers_of_the_golden_records() -> None:
    mm256 = accelerator("mm256")
    assert mm256.level_names == ("DRAM", "L2", "L1")
    assert [level.capacity_words for level in mm256.levels] == [None, 262144, 32768]
    assert [level.energy_pj for level in mm256.levels] == [200.0, 2.2, 1.12]
    assert [level.fanout for level in mm256.levels] == [1, 256, 1]
    assert mm256.levels[1].mesh is None, "a row of 256"
    row = [{"name": "L2", "mesh": [256, 1]}]
    assert accelerator({"extends": "mm256", "levels": row}).hash == mm256.hash
    assert all(level.read_bandwidth is None for level in mm256.levels)
    assert all(level.banks is None for level in mm256.levels)
    assert mm256.mac_energy_pj == 1.0
    assert (mm256.word_bits, mm256.clock_ghz) == (16, 1.0)
    assert (mm256.overflow, mm256.bypass) == ("invalid", "none")
    assert mm256.processing_elements == 256
    # 512 KB shared and 64 KB at each processing element.
    assert [level.capacity_words * 2 // 1024 for level in mm256.levels if level.capacity_words] == [
        512,
        64,
    ]


def differing(base: str, other: str) -> dict[str, Any]:
    """What `other` changes of `base`, without the name; levels as `level.key`."""
    flat = []
    for name in (base, other):
        data = accelerator(name).model_dump(exclude={"name"})
        levels = data.pop("levels")
        data.update({f"{lv['name']}.{key}": value for lv in levels for key, value in lv.items()})
        flat.append(data)
    assert flat[0].keys() == flat[1].keys()
    return {key: value for key, value in flat[1].items() if value != flat[0][key]}


def test_variants_change_what_they_say_and_nothing_else() -> None:
    assert differing("mm256", "mm256-bw") == {
        "DRAM.read_bandwidth": 8.0,
        "DRAM.write_bandwidth": 8.0,
        "L2.read_bandwidth": 16.0,
        "L2.write_bandwidth": 16.0,
        "L1.read_bandwidth": 2.0,
        "L1.write_bandwidth": 2.0,
    }
    assert differing("mm256", "mm256-bypass") == {"bypass": "searched"}
    assert differing("mm256-bw", "mm256-bw-bypass") == {"bypass": "searched"}
    assert differing("mm256", "mindmappings") == {"L2.banks": 16, "L1.banks": 16}
    assert differing("mindmappings", "mindmappings-released") == {"overflow": "bypass"}
    assert differing("eyeriss-168", "edge-1024") == {
        "L2.fanout": 1024,
        "L2.read_bandwidth": 128.0,
        "L2.write_bandwidth": 128.0,
    }


def test_eyeriss_holds_marvels_table_1() -> None:
    eyeriss = accelerator("eyeriss-168")
    assert eyeriss.processing_elements == 168
    assert [level.capacity_words for level in eyeriss.levels] == [None, 108 * 1024, 512]
    assert eyeriss.levels[1].read_bandwidth == pytest.approx(2.4e9 / 200e6)
    assert (eyeriss.word_bits, eyeriss.clock_ghz) == (8, 0.2)


@pytest.mark.parametrize("spelling", ["mm256-bw", "MM256_BW", " Mm256-Bw "])
def test_names_in_any_spelling(spelling: str) -> None:
    assert accelerator(spelling).name == "mm256-bw"


def test_defaults_of_a_level() -> None:
    level = Level(name="L1", energy_pj=1.0)
    assert (level.fanout, level.mesh, level.banks, level.hop_energy_pj) == (1, None, None, 0.0)


def test_one_level_is_enough() -> None:
    one = accelerator(small(levels=[{"name": "DRAM", "energy_pj": 1, "fanout": 8}]))
    assert one.processing_elements == 8


def test_processing_elements_multiply_over_levels() -> None:
    data = small_level(0, fanout=3)
    assert accelerator(data).processing_elements == 12


def test_hash_ignores_the_name_only() -> None:
    base = accelerator(small())
    assert len(base.hash) == 16
    assert accelerator(small(name="other")).hash == base.hash
    assert accelerator(small(mac_energy_pj=2.0)).hash != base.hash
    assert accelerator(small_level(1, fanout=2)).hash != base.hash


def test_survives_pickling() -> None:
    mm256 = accelerator("mm256")
    again = pickle.loads(pickle.dumps(mm256))
    assert again == mm256
    assert hash(again) == hash(mm256)


def test_the_text_names_levels_and_processing_elements() -> None:
    assert str(accelerator("mm256")) == (
        "mm256: DRAM > L2 262144 words x256 > L1 32768 words, 256 PEs"
    )


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: mm256\nlevels:\n  - {name: L2, mesh: [16, 16], hop_energy_pj: 0.5}\n")
    mine = accelerator(path)
    assert mine.name == "mine"
    assert mine.levels[1].mesh == (16, 16)
    assert mine.levels[1].capacity_words == 262144
    assert mine == accelerator(str(path))


def test_extending_leaves_the_preset_alone() -> None:
    before = accelerator("mm256")
    changed = accelerator({"extends": "mm256", "levels": [{"name": "L1", "capacity_words": 16}]})
    assert changed.levels[2].capacity_words == 16
    assert accelerator("mm256") == before


def test_the_callers_mapping_is_left_alone() -> None:
    data = {"extends": "mm256", "levels": [{"name": "L1", "capacity_words": 16}]}
    kept = copy.deepcopy(data)
    accelerator(data)
    assert data == kept


LEVEL_KEYS = (
    "Known keys: name, capacity_words, capacity_bits, capacity_bytes, word_bits, packing, "
    "technology, keep, bypass, component, area_mm2, sources, energy_pj, block_words, "
    "cluster_size, address_pj, leakage_pj, read_bandwidth, write_bandwidth, bandwidth, "
    "multiple_buffering, min_utilisation, startup, buffering, banks, fanout, mesh, axes, spatial, "
    "hop_energy_pj, router_pj, ingress_pj, fill_latency, drain_latency, array, beside, shares, "
    "tiles."
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (small(levels=[]), "accelerator: levels: expected 1 or more entries, got []."),
        ({"mac_energy_pj": 1}, "accelerator: missing levels. Known keys: name, levels, mac_ener"),
        (small(level=[]), "accelerator: level: unknown key; did you mean levels? Known keys: name"),
        (
            small_level(1, capacity=3),
            "accelerator: levels[L1].capacity: unknown key; did you mean capacity_bits? "
            + LEVEL_KEYS,
        ),
        (
            small_level(1, capacity_words=None),
            "accelerator: levels: L1: capacity_words may be null at the outermost level (DRAM) ",
        ),
        (small_level(1, capacity_words=0), "accelerator: levels[L1].capacity_words: expected at "),
        (
            small_level(1, capacity_words=-64),
            "accelerator: levels[L1].capacity_words: expected at least 0, got -64.",
        ),
        (
            small_level(1, capacity_words=64.5),
            "accelerator: levels[L1].capacity_words: expected a whole number, got 64.5.",
        ),
        (
            small_level(1, capacity_words=True),
            "accelerator: levels[L1].capacity_words: expected a whole number, got true.",
        ),
        (
            small_level(1, banks=5),
            "accelerator: levels[L1].banks: expected a divisor of capacity_words = 64, got 5.",
        ),
        (
            small_level(0, banks=4),
            "accelerator: levels[DRAM].banks: 4 banks need capacity_words, which is null.",
        ),
        (
            small_level(1, mesh=[2, 3]),
            "accelerator: levels[L1].mesh: expected width x height = fanout = 4, got 2 x 3.",
        ),
        (small_level(1, mesh=[4]), "accelerator: levels[L1].mesh"),
        (small_level(1, mesh=[4, 0]), "accelerator: levels[L1].mesh[1]: expected at least 1, go"),
        (small_level(1, fanout=0), "accelerator: levels[L1].fanout: expected at least 1, got 0."),
        (small_level(1, energy_pj=-1), "accelerator: levels[L1].energy_pj: expected at least 0, "),
        (
            small_level(1, energy_pj=float("nan")),
            "accelerator: levels[L1].energy_pj: expected a finite number, got nan.",
        ),
        (
            small_level(1, energy_pj=float("inf")),
            "accelerator: levels[L1].energy_pj: expected a finite number, got inf.",
        ),
        (
            small_level(1, hop_energy_pj=-0.5),
            "accelerator: levels[L1].hop_energy_pj: expected at least 0, got -0.5.",
        ),
        (
            small_level(1, read_bandwidth=0),
            "accelerator: levels[L1].read_bandwidth: expected more than 0, got 0.",
        ),
        (small_level(1, name="DRAM"), "accelerator: levels: the name 'DRAM' is given to two lev"),
        (small_level(1, name=""), "accelerator: levels[1].name: expected one line of text, "),
        (small(mac_energy_pj=-1), "accelerator: mac_energy_pj: expected at least 0, got -1."),
        (small(word_bits=0), "accelerator: word_bits: expected at least 1, got 0."),
        (small(clock_ghz=0), "accelerator: clock_ghz: expected more than 0, got 0."),
        (small(overflow="drop"), "accelerator: overflow: expected 'invalid' or 'bypass', got 'd"),
        (small(bypass=True), "accelerator: bypass: expected 'none' or 'searched', got true."),
        (
            {"extends": "mm25"},
            "accelerator: extends: expected one of actions30, ",
        ),
        ({"extends": ["mm256"]}, "accelerator: extends: expected one of actions30, "),
        (
            {"extends": "mm256", "levels": [{"name": "L3", "banks": 2}]},
            "accelerator: levels[0].name: expected one of mm256's levels (DRAM, L2, L1), got 'L3'",
        ),
        (
            {"extends": "mm256", "levels": [{"banks": 2}]},
            "accelerator: levels[0].name: expected one of mm256's levels (DRAM, L2, L1), got {'b",
        ),
        (
            {"extends": "mm256", "levels": [{"name": "L2"}, {"name": "L2"}]},
            "accelerator: levels: the name 'L2' is given to two levels.",
        ),
        ({"extends": "mm256", "levels": 3}, "accelerator: levels: expected a list, got 3."),
        (
            {"extends": "mm256", "levels": [{"name": "L2", "bank": 2}]},
            "accelerator: levels[L2].bank: unknown key; did you mean banks? " + LEVEL_KEYS,
        ),
    ],
)
def test_refusals(data: dict[str, Any], message: str) -> None:
    assert refusal(data).startswith(message)


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: mm256\nlevels:\n  - {name: L2, fanout: 0}\n")
    with pytest.raises(ConfigError) as caught:
        accelerator(path)
    assert str(caught.value) == f"{path}: levels[L2].fanout: expected at least 1, got 0."


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown accelerator 'mm265'; did you mean mm256") as e:
        accelerator("mm265")
    assert all(name in str(e.value) for name in accelerator_names())
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        accelerator(str(tmp_path / "absent.yaml"))


def test_accelerators_are_frozen() -> None:
    mm256: Accelerator = accelerator("mm256")
    with pytest.raises(ValueError, match="frozen"):
        mm256.overflow = "bypass"  # type: ignore[misc]


def test_a_shared_room_in_words_and_in_bits_is_one() -> None:
    def machine(first: dict[str, Any], second: dict[str, Any]) -> Accelerator:
        levels = [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "A", "energy_pj": 2.0, "shares": "buffer", **first},
            {"name": "B", "energy_pj": 2.0, "shares": "buffer", **second},
        ]
        return accelerator({"name": "one", "mac_energy_pj": 1.0, "levels": levels})

    words, bits = {"capacity_words": 64}, {"capacity_bits": 1024}
    found = [machine(words, words), machine(bits, words), machine(words, bits)]
    assert [[level.capacity_words for level in one.levels] for one in found] == [[None, 64, 64]] * 3
    with pytest.raises(ConfigError, match="word_bits: A and B share one room"):
        machine(words | {"word_bits": 8}, words)
