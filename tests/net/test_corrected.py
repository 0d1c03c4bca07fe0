"""METADATA as the index proxy shows it: with what it lacks."""

from envspec.facts.corrections import Correction, Corrections
from envspec.net.index_proxy.server import correct_metadata

ROWS = Corrections(
    (
        Correction("a-numpy-2", "a-b", "<3", "constraint", "numpy<2", "it fails"),
        Correction("a-c", "a-b", "==1.0", "requirement", "c>=2", "it imports c"),
    )
)
HEAD = "Metadata-Version: 2.1\nName: A_b\nVersion: {}\nRequires-Dist: numpy>=1.20\nProvides-Extra: x"


def test_lines_are_added_to_the_versions_that_lack_them() -> None:
    shown = correct_metadata((HEAD.format("1.0") + "\n\n").encode(), ROWS)
    assert shown.decode() == HEAD.format("1.0") + "\nRequires-Dist: c>=2\nRequires-Dist: numpy<2\n\n"


def test_other_metadata_stays_as_it_is() -> None:
    text = (HEAD.format("3.0") + "\n\n").encode()
    assert correct_metadata(text, ROWS) is text
    assert correct_metadata(b"Metadata-Version: 2.1\n\n", ROWS) == b"Metadata-Version: 2.1\n\n"
