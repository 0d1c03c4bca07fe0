"""`[matrix]` of a checked document, as targets."""

from __future__ import annotations

from envspec.spec.checked import Checked
from envspec.spec.gpu_lookups import Capability
from envspec.spec.matrix import MAX_COMBINATIONS, Combination, Exclude, Matrix, expand, is_cpu, target_name
from envspec.spec.messages import show
from envspec.spec.model import Target
from envspec.spec.positions import Path
from envspec.spec.schema import TARGET_NAME


def expanded(checked: Checked, capability: Capability, taken: dict[str, Target]) -> list[Target]:
    """Return the targets that a matrix makes beside those `taken` already, by name. Problems go to `checked`."""
    if not checked.given("matrix", "platform") or not checked.sound_throughout("matrix"):
        return []
    matrix = _matrix(checked)
    if matrix.gpus and all(map(is_cpu, matrix.cudas)):
        hint = 'add for example cuda = ["12.8"], or remove gpus for CPU targets'
        checked.problem(("matrix", "gpus"), "[matrix] has gpus but no cuda", hint, at_key=True)
        return []
    if matrix.size > MAX_COMBINATIONS:
        message = f"[matrix] has {matrix.size} combinations, more than {MAX_COMBINATIONS}"
        checked.problem(("matrix",), message, "split the spec")
        return []
    expansion = expand(matrix)
    for index in expansion.unmatched:
        hint = "an entry excludes what matches all its keys; check them, or remove the entry"
        checked.problem(("matrix", "exclude", index), f"matrix.exclude[{index}] matches no combination", hint)
    if not expansion.combinations:
        checked.problem(("matrix",), "[matrix] has no combination left", "remove an entry of exclude")
    found = []
    for one in expansion.combinations:
        name = target_name(one, capability, with_platform=len(matrix.platforms) > 1)
        target = _from_combination(checked, one, name)
        if _check_expanded(checked, one, target, taken):
            taken[name] = target
            found.append(target)
    return found


def _matrix(checked: Checked) -> Matrix:
    data = checked.value("matrix")
    return Matrix(
        platforms=tuple(data["platform"]),
        cudas=tuple(data.get("cuda", Matrix.cudas)),
        gpus=tuple(map(tuple, data.get("gpus", ()))),
        excludes=tuple(
            Exclude(entry.get("platform"), entry.get("cuda"), tuple(entry.get("gpus", ())))
            for entry in data.get("exclude", ())
        ),
    )


def _from_combination(checked: Checked, one: Combination, name: str) -> Target:
    places = {"platform": checked.place("matrix", "platform", one.platform_index)}
    if one.cuda is not None:
        places["cuda"] = checked.place("matrix", "cuda", one.cuda_index)
    if one.gpus_index is not None:
        places["gpus"] = checked.place("matrix", "gpus", one.gpus_index)
    place = checked.place("matrix", at_key=True)
    return Target(name, one.platform, one.cuda, one.gpus, place=place, places=places)


def _check_expanded(checked: Checked, one: Combination, target: Target, taken: dict[str, Target]) -> bool:
    origin: Path = ("matrix", "platform", one.platform_index)
    if one.cuda is not None and one.platform.startswith("osx"):
        hint = f'leave it out: exclude = [{{ platform = "{one.platform}", cuda = "{one.cuda}" }}]'
        checked.problem(origin, f"[matrix]: there is no CUDA on {one.platform}", hint)
        return False
    if one.gpus_index is not None:
        origin = ("matrix", "gpus", one.gpus_index)
    elif one.cuda is not None:
        origin = ("matrix", "cuda", one.cuda_index)
    if not TARGET_NAME.allows(target.name):
        hint = "write it as a table of its own, [targets.NAME]"
        checked.problem(origin, f"[matrix] makes a target with the bad name {show(target.name)}", hint)
        return False
    other = taken.get(target.name)
    if other is not None:
        if other.place == target.place:
            message = f"[matrix] makes the target {target.name!r} twice"
            hint = "GPUs of one architecture share a lock: put them in one list"
        else:
            message = f"[matrix] makes the target {target.name!r}, which line {other.place.line} already has"
            hint = "rename that one, or exclude this combination"
        checked.problem(origin, message, hint)
        return False
    return True
