"""The slice of the lock in an image: shared out to the layers, and put together by the carried check."""

from pathlib import Path
from typing import Any

import pytest
from envspec_check.lock import read_target

from envspec.image.layers import SliceParts, layer_of, split_slice

SHIPPED = sorted((Path(__file__).parents[2] / "recipes").glob("*/*/target.json"))


def placed(parts: SliceParts, folder: Path) -> Path:
    (folder / "packages").mkdir(exist_ok=True)
    for layer, text in parts.of_layers.items():
        (folder / SliceParts.path(layer)).write_text(text, encoding="utf-8")
    (folder / "target.json").write_text(parts.target, encoding="utf-8")
    return folder / "target.json"


def test_what_is_shared_out_is_put_together_again(tmp_path: Path) -> None:
    assert SHIPPED
    for number, path in enumerate(SHIPPED):
        (tmp_path / str(number)).mkdir()
        document = read_target(str(path))
        assert read_target(str(placed(split_slice(document, layer_of), tmp_path / str(number)))) == document, path


def moved(document: dict[str, Any], name: str) -> dict[str, Any]:
    rows = [{**row, "version": "99"} if row["name"] == name else row for row in document["lock"]["pip"]]
    return {**document, "lock_digest": "sha256:1", "lock": {**document["lock"], "pip": rows}}


@pytest.mark.parametrize(("name", "layer"), [("torch", "torch"), ("nvidia-cublas-cu12", "nvidia"), ("numpy", "rest")])
def test_a_package_that_moves_changes_one_text(name: str, layer: str) -> None:
    document = read_target(next(str(one) for one in SHIPPED if "llm-v2.9/cu128-hopper" in str(one)))
    before, after = (split_slice(one, layer_of) for one in (document, moved(document, name)))
    assert after.target == before.target
    assert {one for one, text in after.of_layers.items() if text != before.of_layers[one]} == {layer}
    newer = split_slice({**document, "code": {"sm": ["9.9"], "ptx": []}}, layer_of)
    assert newer.target == before.target, "what torch is compiled for goes with torch"


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"lock": []}', '{"lock": {"pip": []}}', '{"lock": {"pip": [1]}}', '{"lock": {"env": []}}', "{"],
)
def test_parts_of_no_slice_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(text)
    (tmp_path / "target.json").write_text('{"parts": ["one.json"], "lock": {"env": {}}, "direct": [["pip", "a"]]}')
    with pytest.raises(ValueError):
        read_target(str(tmp_path / "target.json"))


def test_a_part_that_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "target.json").write_text('{"parts": ["one.json"], "lock": {}}')
    with pytest.raises(OSError):
        read_target(str(tmp_path / "target.json"))
