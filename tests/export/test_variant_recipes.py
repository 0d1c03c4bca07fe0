"""What recipes have for a lock with variants, and that no other has it."""

import subprocess

from msgspec.structs import replace
from recipe_plans import parsed, shipped, text_in
from recipe_readers import read_apptainer, read_dockerfile
from test_dockerfile import stages

from envspec.export import apptainer, dockerfile
from envspec.export.make import make_plan
from envspec.export.plan import FETCH_VARIANTS, Plan
from envspec.lock.model import LockedTarget, Pin, SoundLock, WheelVariant

CARRIED = f"envspec/{FETCH_VARIANTS}"


def as_variant(pin: Pin) -> Pin:
    assert pin.artifact is not None
    file = pin.artifact.file.replace(".whl", "-cu126.whl")
    return replace(pin, artifact=replace(pin.artifact, file=file, variant=WheelVariant("cu126")))


def plan_with_variants(target: str, *names: str) -> Plan:
    """The plan of a target of mm-v2.9 that has variants of these packages."""
    spec, lock = parsed("mm-v2.9")

    def changed(one: LockedTarget) -> LockedTarget:
        return replace(one, pins=tuple(as_variant(pin) if pin.name in names else pin for pin in one.pins))

    targets = tuple(changed(one) if one.name == target else one for one in lock.targets)
    found = replace(lock, targets=targets)
    locked = found.target(target)
    assert locked is not None
    return make_plan(spec, SoundLock.of(found), locked)


def test_a_dockerfile_fetches_them_before_anything_is_installed() -> None:
    plan = plan_with_variants("cu126-volta", "torch", "numpy")
    text = text_in(dockerfile.render(plan), "Dockerfile")
    read_dockerfile(text, plan)
    found = stages(text)
    assert list(found)[:5] == ["uv", "python", "fetched", "wheels", "nvidia"]
    assert found["wheels"] == ["FROM scratch AS wheels", "COPY --from=fetched /layers/wheels /"]
    *_, fetch = found["fetched"]
    for one in ("torch", "numpy"):
        (pin,) = (pin for step in plan.pip for pin in step.variants if pin.file.startswith(f"{one}-"))
        assert f" -- {pin.file} {pin.sha256} {pin.size or 0}" in fetch
    # of the PyTorch index, or a mirror of it, and of the default one
    assert 'ARG PYTORCH_INDEX=""' in found["fetched"] and fetch.count("fetch.sh --torch-backend cu126 -- ") == 1
    assert "--find-links /run/wheels" not in found["nvidia"][-1]
    for layer in ("torch", "rest"):
        assert "--mount=type=bind,from=wheels,target=/run/wheels" in found[layer][-1]
        assert "--find-links /run/wheels" in found[layer][-1]
    assert "NV_VARIANT" not in text and "UV_PREVIEW" not in text and CARRIED in plan.files


def test_a_definition_fetches_them_unless_it_is_given_wheels() -> None:
    plan = plan_with_variants("cu126-volta", "torch")
    text = text_in(apptainer.render(plan), "apptainer.def")
    read_apptainer(text, plan)
    lines = [line.strip() for line in text.splitlines()]
    start = lines.index("wheels=/mnt/wheels")
    script = "\n".join(lines[start - 2 : start + 7])
    # the shell's own words, with what is run replaced by what shows its arguments
    script = script.replace("/opt/env/bin/python", "printf '%s\\n'").replace("uv pip install", "printf '%s\\n'")
    ran = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    words = ran.stdout.split()
    (file,) = (one for step in plan.pip for one in step.variants)
    asked = ["-I", f"/opt/envspec/{FETCH_VARIANTS}", "/opt/scratch/wheels", file.file, file.sha256, str(file.size or 0)]
    assert words[: len(asked) + 3] == [*asked, "--", "uv", "--torch-backend=cu126"]
    at = words.index("--find-links")
    assert words[at - 1 : at + 2] == ["--torch-backend=cu126", "--find-links", "/opt/scratch/wheels"]
    assert "if [ -s /mnt/netrc ]; then export NETRC=/mnt/netrc; fi" in lines


def test_other_recipes_know_nothing_of_it() -> None:
    for plan in (shipped("mm-v2.9", "cu126-volta"), shipped("hpc-v2.7", "cu126-ampere")):
        made = {**plan.files, **dockerfile.render(plan), **apptainer.render(plan)}
        assert CARRIED not in made and not [path for path, text in made.items() if "wheels=" in text]
