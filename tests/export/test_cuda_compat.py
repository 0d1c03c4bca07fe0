"""`cuda-compat = true`: recipes that bring forward compatibility, and judge the driver accordingly."""

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import parsed

from envspec.carried import preflight
from envspec.export import apptainer, compat, dockerfile, images
from envspec.export.images import wanted_images
from envspec.export.make import make_plan
from envspec.export.plan import Plan
from envspec.lock.model import LockedImage, SoundLock

TARGET = "cu130-hopper"


def plan_of(*, wanted: bool = True) -> Plan:
    spec, lock = parsed("mm-v2.9")
    spec = replace(
        spec, targets=tuple(replace(one, cuda_compat=wanted) if one.name == TARGET else one for one in spec.targets)
    )
    target = lock.target(TARGET)
    assert target is not None
    return make_plan(spec, SoundLock.of(lock), target)


def test_the_image_takes_it_from_nvidias_own() -> None:
    text = dockerfile.render(plan_of())[f"{TARGET}/Dockerfile"]
    assert 'ARG CUDA_COMPAT_IMAGE="nvidia/cuda:13.0.2-base-ubuntu22.04"' in text
    assert "FROM ${CUDA_COMPAT_IMAGE} AS cuda-compat" in text
    assert "COPY --from=cuda-compat /usr/local/cuda-13.0/compat /usr/local/cuda/compat" in text
    assert "driver>=580.65.06 driver>=535,driver<536 driver>=550,driver<551 driver>=565,driver<566" in text.replace(
        "\\\n", ""
    )
    definition = apptainer.render(plan_of())[f"{TARGET}/apptainer.def"]
    assert "    /usr/local/cuda-13.0/compat /usr/local/cuda/compat" in definition
    assert "Stage: cuda-compat" in definition


def test_without_it_nothing_of_it_is_there() -> None:
    plan = plan_of(wanted=False)
    for text in (*dockerfile.render(plan).values(), *apptainer.render(plan).values()):
        assert "compat" not in text.lower()
    assert "forward_branches" not in plan.sources.files[f"{TARGET}/target.json"]


def test_lock_asks_for_its_digest() -> None:
    spec, lock = parsed("mm-v2.9")
    assert not any("base-ubuntu" in name for name in wanted_images(spec, lock))
    asking = replace(spec, targets=tuple(replace(one, cuda_compat=bool(one.cuda)) for one in spec.targets))
    names = [name for name in wanted_images(asking, lock) if "base-ubuntu" in name]
    assert "nvidia/cuda:13.0.2-base-ubuntu22.04" in names
    digest = "sha256:" + "a" * 64
    known = replace(lock, images=(*lock.images, LockedImage("nvidia/cuda:13.0.2-base-ubuntu22.04", digest)))
    target = known.target(TARGET)
    assert target is not None
    (one,) = make_plan(asking, SoundLock.of(known), target).image.borrowed[-1:]
    assert one.name == "cuda-compat" and one.image.pinned.endswith(f"@{digest}")


@pytest.mark.parametrize(
    ("driver", "doubt"),
    [
        ("535.183.01", ""),
        ("570.124.06", ""),
        ("545.23.08", "one that cuda-compat serves (535, 550, 565, 570, 575)"),
        ("525.60.13", "needs"),
    ],
)
def test_the_preflight_stops_no_image_with_cuda_compat(driver: str, doubt: str) -> None:
    """Which branches it serves is a table's: 12.2 is the word of the driver, and not of the image's libcuda."""
    target = json.loads(plan_of().sources.files[f"{TARGET}/target.json"])
    machine = preflight.Machine(driver, (preflight.Gpu("NVIDIA H100 80GB HBM3", "9.0"),), True, "12.2")
    stop, text = preflight.judge(target, machine)
    assert not stop and bool(text) is bool(doubt) and doubt in text
    assert preflight.judge(target | {"forward_branches": None}, machine).text.endswith("cuda-compat serves (unknown)")
    without = {name: value for name, value in target.items() if name != "forward_branches"}
    assert preflight.judge(without, machine).stop


def test_a_cuda_whose_branches_no_table_knows_keeps_no_driver_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "toolkit", lambda cuda: None)
    plan = plan_of()
    assert json.loads(plan.sources.files[f"{TARGET}/target.json"])["forward_branches"] is None
    assert "NVIDIA_REQUIRE_CUDA" not in dict(plan.runtime.env) and "NVIDIA_VISIBLE_DEVICES" in dict(plan.runtime.env)


@pytest.mark.parametrize(("cuda", "image"), [("13.2", "13.2.1-base-ubuntu22.04"), ("13.4", "13.4.2-base-ubuntu24.04")])
def test_each_cuda_takes_it_from_an_image_that_was_seen(cuda: str, image: str) -> None:
    assert images.compat_image(cuda) == f"nvidia/cuda:{image}"


@pytest.mark.parametrize(
    ("version", "taken"), [("535.183.01", True), ("575.57.08", True), ("580.65.06", False), ("610.43.02", False)]
)
def test_apptainer_puts_it_before_an_older_driver_alone(tmp_path: Path, version: str, taken: bool) -> None:
    said = tmp_path / "version"
    said.write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Wed Jul  2 2026\nGCC version: 12\n")
    lines = "\n".join(compat.choice("580.65.06")).replace("/proc/driver/nvidia/version", str(said))
    script = f'LD_LIBRARY_PATH=/a\n{lines}\necho "$LD_LIBRARY_PATH"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == ("/usr/local/cuda/compat:/a" if taken else "/a")


def test_apptainer_leaves_a_machine_without_a_driver_alone(tmp_path: Path) -> None:
    lines = "\n".join(compat.choice("580.65.06")).replace("/proc/driver", str(tmp_path))
    shown = subprocess.run(["sh", "-uc", f'{lines}\necho "${{LD_LIBRARY_PATH:-none}}"'], capture_output=True, text=True)
    assert shown.stdout.strip() == "none"
