"""Golden files of this folder."""

from pathlib import Path

from support.golden import golden as whole

FOLDER = Path(__file__).parent / "golden"


def golden(name: str, text: str) -> str:
    return whole(FOLDER / name, text)
