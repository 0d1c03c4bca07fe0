"""What messages share: sizes, counts, and what somebody meant."""

import pytest

from envspec.base.errors import InputError
from envspec.base.texts import byte_size, memory_size, nearest
from envspec.spec.targets import refuse_unknown_targets


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (4608, "4.5 KiB"),
        (64 << 20, "64 MiB"),
        ((1 << 20) - 1, "1 MiB"),
        (1 << 30, "1 GiB"),
        (85_472_000_000, "79.6 GiB"),
        (1000 << 30, "1,000 GiB"),
        (3 << 40, "3 TiB"),
        (5 << 50, "5,120 TiB"),
    ],
)
def test_memory_for_people(number: int, text: str) -> None:
    assert memory_size(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (12_300, "12 kB"), (1_310_000, "1.3 MB"), (2_941 * 10**6, "2.94 GB")],
)
def test_bytes_of_files_for_people(number: int, text: str) -> None:
    """In powers of ten, as a terminal's bars have them, and as diff and the report do."""
    assert byte_size(number) == text


def test_what_was_meant_keeps_its_case() -> None:
    assert nearest("SPECS", ["Specs", "other"]) == "Specs"
    assert nearest("zzz", ["Specs"]) is None
    assert nearest("x" * 10**6, ["Specs"]) is None


def test_an_unknown_target_is_said_with_what_was_meant() -> None:
    refuse_unknown_targets(["cpu"], ["cpu"], "specs/a.toml")
    with pytest.raises(InputError, match="has no target cpus") as near:
        refuse_unknown_targets(["cpus"], ["cpu", "cu128"], "specs/a.toml")
    assert near.value.hint == "did you mean cpu?"
    with pytest.raises(InputError) as far:
        refuse_unknown_targets(["zzz"], ["cpu", "cu128"], "specs/a.toml")
    assert far.value.hint == "its targets: cpu, cu128"
