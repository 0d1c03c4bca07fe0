"""The specs in `valid/`, and what they mean."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envspec.base.errors import Place, SpecError, ToolError
from envspec.packages.own_extras import how_to_get
from envspec.spec.matrix import Lookups
from envspec.spec.model import Image, Located, Reference
from envspec.spec.parse import load_spec, parse_spec

FOLDER = Path(__file__).parent / "valid"
CASES = sorted(FOLDER.glob("*.toml"))
CAPABILITIES = {"A100": "8.0", "H100": "9.0", "H200": "9.0", "B200": "10.0"}
MINIMAL = (FOLDER / "minimal.toml").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_is_accepted(case: Path) -> None:
    spec = load_spec(case)
    assert spec.targets
    assert spec.path == str(case)


def test_complete() -> None:
    path = str(FOLDER / "complete.toml")
    spec = load_spec(path, Lookups(CAPABILITIES.get))
    assert spec.name == "mm-v2.9"
    assert spec.exclude_newer == "2026-11-01T00:00:00Z"
    assert [one.text for one in spec.pip.dependencies] == [
        "torch==2.9.*",
        "torchvision",
        "transformers<5,>=4.57",
        "deepspeed",
    ]
    assert spec.pip.dependencies[2].place == Place(path, 9, 48)
    assert spec.pip.allow_source == {"deepspeed"}
    assert dict(spec.pip.indexes) == {"internal": "https://packages.example.org/simple"}
    assert dict(spec.pip.sources) == {"acme-models": "internal"}
    assert [one.text for one in spec.conda.dependencies] == ["ffmpeg 7.*", "openssh"]
    assert [target.name for target in spec.targets] == [
        "cu128-hopper",
        "cu126-sm80",
        "cu126-sm90",
        "cu128-sm80",
        "cu128-sm90",
    ]
    by_name = {target.name: target for target in spec.targets}
    assert by_name["cu126-sm90"].gpus == ("H100",)
    assert by_name["cu128-sm90"].gpus == ("H100", "H200")
    hopper = by_name["cu128-hopper"]
    assert (hopper.cuda, hopper.gpus, hopper.driver) == ("12.8", ("H100", "H200"), "550.54.15")
    assert [one.text for one in spec.pip_dependencies(hopper)][-1] == "flash-attn-3"
    assert hopper.place == Place(path, 18, 10)
    assert hopper.places["driver"] == Place(path, 22, 10)
    assert by_name["cu128-sm90"].places["cuda"] == Place(path, 30, 17)
    assert by_name["cu128-sm90"].places["gpus"] == Place(path, 31, 19)
    assert spec.places["env.python"] == Place(path, 5, 10)
    assert spec.places["pip.sources.acme-models"] == Place(path, 12, 27)
    assert dict(spec.image.env) == {"HF_HOME": "/workspace/.cache/hf"}


def test_matrix_of_platforms() -> None:
    spec = load_spec(FOLDER / "matrix-of-platforms.toml")
    gpus = {target.name: target.gpus for target in spec.targets}
    assert gpus == {
        "cpu-linux-64": (),
        "cu128-sm80-linux-64": ("sm_80",),
        "cu128-sm90-linux-64": ("sm_90",),
        "cu128-some-gpu-1-linux-64": ("Some GPU 1",),
        "cu130-sm80-linux-64": ("sm_80",),
        "cu130-sm90-sm100-linux-64": ("sm_90", "sm_100"),
        "cu130-some-gpu-1-linux-64": ("Some GPU 1",),
        "cpu-linux-aarch64": (),
        "cu128-sm80-linux-aarch64": ("sm_80",),
        "cu128-sm90-linux-aarch64": ("sm_90",),
        "cu130-sm80-linux-aarch64": ("sm_80",),
        "cu130-sm90-sm100-linux-aarch64": ("sm_90", "sm_100"),
        "cpu-osx-arm64": (),
    }


def test_toml_time_is_read_as_utc() -> None:
    assert load_spec(FOLDER / "dates.toml").exclude_newer == "2026-10-31T23:30:00Z"


def test_names_are_normalised_and_references_kept() -> None:
    spec = load_spec(FOLDER / "image-and-smoke.toml")
    assert spec.pip.allow_source == {"deep-speed"}
    assert dict(spec.pip.sources) == {"acme-models": "internal"}
    assert dict(spec.smoke.references) == {
        "matmul.bf16": Reference(740.5, -0.05, 0.1, "TFLOP/s"),
        "all-reduce": Reference(300.0),
    }


def test_what_an_image_is_built_with() -> None:
    image = load_spec(FOLDER / "image-and-smoke.toml").image
    assert image.build_apt == ("libaio-dev",) and image.fabric == "none" and image.nvcc and image.ssh_port == 22
    assert dict(image.build_env) == {"MAX_JOBS": "4", "DS_BUILD_FUSED_ADAM": "1"}
    assert Image().fabric == "infiniband" and not Image().nvcc


@pytest.mark.parametrize("written", ["2026-11-01", '"2026-11-01"', "2026-11-01T12:00:00Z"])
def test_the_day_of_a_snapshot_is_text_however_toml_has_it(written: str) -> None:
    spec = parse_spec(f"{MINIMAL}\n[image]\nsnapshot = {written}\n", "x.toml")
    assert spec.image.snapshot == "2026-11-01"


def test_the_day_of_a_snapshot_is_one_of_the_calendar() -> None:
    with pytest.raises(SpecError, match=r"image\.snapshot: '2026-02-31' isn't a date or time"):
        parse_spec(f'{MINIMAL}\n[image]\nsnapshot = "2026-02-31"\n', "x.toml")


def test_inline_tables_and_git_requirements() -> None:
    path = str(FOLDER / "inline-everything.toml")
    spec = load_spec(path)
    assert spec.pip.dependencies == (
        Located("clip @ git+https://git.example.org/openai/CLIP@v1", Place(path, 2, 21)),
        Located("mine @ git+ssh://git@git.example.org/me/mine", Place(path, 2, 74)),
    )
    assert spec.targets[0].place == Place(path, 3, 13)


def test_a_package_that_is_written_twice_is_one_with_both_bounds() -> None:
    listed = '["lib>=1", "Lib[b]<2", "lib>=1; os_name == \'nt\'", "other", "other"]'
    text = MINIMAL.replace('["torch"]', listed + '\nconstraints = ["low<3", "low>1"]')
    spec = parse_spec(text, "x.toml")
    texts = [one.text for one in spec.pip.dependencies]
    assert texts == ["lib[b]<2,>=1", 'lib>=1; os_name == "nt"', "other"]
    assert [one.text for one in spec.pip.terms.constraints] == ["low<3,>1"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_windows_line_ends(newline: str) -> None:
    text = MINIMAL.replace("3.12", "3.99").replace("\n", newline)
    with pytest.raises(SpecError, match=r"^a\.toml:2:10: "):
        parse_spec(text, "a.toml")


def test_match_specs_that_are_not_plain_need_py_rattler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rattler", None)
    text = (
        f"{MINIMAL}[conda]\nchannels = ['conda-forge']\ndependencies = ['FFmpeg >=7,<8', 'git ', 'a ==1.0', 'b 2.*']\n"
    )
    spec = parse_spec(text, "a.toml")
    assert [one.text for one in spec.conda.dependencies] == ["ffmpeg >=7,<8", "git", "a ==1.0", "b 2.*"]
    with pytest.raises(ToolError) as caught:
        parse_spec(text.replace("b 2.*", "b =2[build=cuda*]"), "a.toml")
    assert str(caught.value) == (
        "a.toml:11:53: reading the match spec 'b =2[build=cuda*]' needs py-rattler, which isn't installed"
    )
    assert caught.value.hint == how_to_get("conda")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("written", "minor", "bound"),
    [
        ("3.12", "3.12", None),
        ("3.12.4", "3.12", "==3.12.4"),
        (">=3.11, <3.13", "3.12", "<3.13,>=3.11"),
        ("==3.12.*", "3.12", None),
        ("~=3.12.4", "3.12", "~=3.12.4"),
        (">=3.10,!=3.14.*,!=3.15.*", "3.13", "!=3.14.*,!=3.15.*,>=3.10"),
    ],
)
def test_python_is_a_version_or_a_range(written: str, minor: str, bound: str | None) -> None:
    spec = parse_spec(MINIMAL.replace('"3.12"', f'"{written}"'), "a.toml")
    assert (spec.python, spec.python_range) == (minor, bound)


def test_a_range_takes_the_minor_version_of_its_newest_build() -> None:
    asked = []

    def newest(bound: str, before: str | None) -> str:
        asked.append((bound, before))
        return "3.13"

    text = MINIMAL.replace('"3.12"', '">=3.11"\nexclude-newer = "2026-01-01"')
    assert parse_spec(text, "a.toml", Lookups(newest=newest)).python == "3.13"
    assert asked == [(">=3.11", "2026-01-01T00:00:00Z")]
