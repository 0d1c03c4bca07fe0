"""All that stands in the way of a lock is one error, ranked, with ways that were solved to their end as written."""

import ast
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from msgspec.structs import replace
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from support.torch_packages import stand_ins

import envspec
from envspec.base.errors import EnvspecError, Infeasible, parts
from envspec.lock.inputs import spec_case
from envspec.lock.model import TargetInputs
from envspec.resolve.workflow.obstacles import SECONDS, SOLVES, Trial, all_in_the_way, apply_way, write_way
from envspec.resolve.workflow.relock import relock
from envspec.resolve.workflow.solve import solve
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec, parse_spec
from envspec.spec.way import Way

TARGET = "[targets.t]\nplatform = 'linux-64'\ncuda = '13.0'\ngpus = ['H100']\n"

# The judge of ways, with answers in place of solutions.

TEXT = cpu("a", "b", "c", targets="[targets.x]\nplatform='linux-64'\n[targets.y]\nplatform='linux-64'\n")
SPEC = parse_spec(TEXT, "demo.toml")
Answer = Callable[[Spec], "tuple[EnvspecError, ...] | None"]


def refusal(code: str, about: str, targets: tuple[str, ...] = ("x", "y"), *ways: Way) -> Infeasible:
    error = Infeasible(f"{about} is refused").with_subjects(about)
    error.code, error.targets, error.ways = code, targets, ways
    return error


def told(*refused: EnvspecError, answer: Answer, clock: Iterator[float] | None = None) -> list[Spec]:
    """The specs that are solved for the hints of refusals."""
    seen: list[Spec] = []
    times = clock or iter(lambda: 0.0, 1.0)

    def attempt(spec: Spec, seconds: float) -> tuple[EnvspecError, ...] | None:
        assert 0 < seconds <= SECONDS
        seen.append(spec)
        return answer(spec)

    all_in_the_way(refused, Trial(SPEC, ("x", "y"), attempt, times.__next__, 0.0))
    return seen


def test_what_blocks_most_comes_first_and_once() -> None:
    one, most = refusal("no-build", "a", ("x",)), refusal("no-build", "b")
    trial = Trial(SPEC, ("x", "y"), lambda spec, seconds: (), lambda: 0.0, 0.0)
    assert parts(all_in_the_way((one, most, refusal("no-build", "b")), trial)) == (most, one)


@pytest.mark.parametrize("works", [True, False])
def test_three_changes_are_solved_and_the_others_left_out(works: bool) -> None:
    one = refusal("requires-python", "a", ("x",), *(Way(python=f"3.{minor}") for minor in range(8, 15)))
    seen = told(one, answer=lambda spec: () if works else (refusal("no-build", "c"),))
    assert [spec.python for spec in seen] == ["3.8", "3.9", "3.10"] and len(seen) == SOLVES
    assert one.hint == ('python = "3.8"; or python = "3.9"; or python = "3.10"' if works else None)


def test_after_ten_seconds_what_is_left_is_left_out() -> None:
    one = refusal("requires-python", "a", ("x",), *(Way(python=f"3.{minor}") for minor in (11, 12, 13)))
    # asked at the start, before each solution, and what is left of the time for it
    seen = told(one, answer=lambda spec: (), clock=iter([0.0, 1.0, 1.0, 9.9, 9.9, 10.1]))
    assert [spec.python for spec in seen] == ["3.11", "3.12"] and one.hint == 'python = "3.11"; or python = "3.12"'


@pytest.mark.parametrize(("conflict", "solved"), [(4.0, ["3.11", "3.12"]), (30.0, ["3.11"])])
def test_a_command_says_no_within_ten_seconds_unless_its_conflict_took_longer(
    conflict: float, solved: list[str]
) -> None:
    """Five seconds are always there."""
    one = refusal("requires-python", "a", ("x",), *(Way(python=f"3.{minor}") for minor in (11, 12, 13)))
    times = (conflict + one for one in (0.0, 0.0, 0.0, 4.9, 4.9, 6.1) if conflict < 10 or one != 4.9)
    seen = told(one, answer=lambda spec: (), clock=times)
    assert [spec.python for spec in seen] == solved


@pytest.mark.e2e
def test_what_is_tried_ends_in_its_time_between_questions_too(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopping uv alone lets what comes after it ask anew."""
    solves, rounds = count(), count()

    def without_end(ready: Any, resolvers: Any, kept: Any, judge: Any) -> Any:
        if not next(solves):
            return solve(ready, resolvers, kept, judge)
        while next(rounds) < 100:
            judge(None)
            sleep(0.05)
        raise AssertionError("asked anew, after the time")

    monkeypatch.setattr(f"{relock.__module__}.solve", without_end)
    monkeypatch.setattr(f"{relock.__module__}.of_pins", lambda *given: ())
    monkeypatch.setattr("envspec.resolve.workflow.obstacles.SECONDS", 1.0)
    ran = machine.envspec("lock", machine.spec(bounds(index)), status=1)
    assert next(rounds) and not re.search("write|leave", ran.hint), ran.err


def test_ways_of_several_refusals_are_solved_together() -> None:
    """Each alone leaves the other's refusal: `lock` would end with 1."""
    mine = refusal("no-build", "a", ("x",), Way(cuda="12.6"), Way(cuda="12.8"))
    its = refusal("no-build", "b", ("y",), Way(line="b<2"), Way(line="b<1"))
    seen = told(mine, its, answer=lambda spec: ())
    assert [[target.cuda for target in spec.targets] for spec in seen] == [["12.6", None], ["12.8", None]]
    assert all("b<2" in {line.text for line in spec.pip.dependencies} for spec in seen)
    assert mine.hint == 'cuda = "12.6" in the target; or cuda = "12.8" in the target' and its.hint == 'write "b<2"'


def test_beside_what_has_no_way_no_way_is_solved_or_told() -> None:
    mine, its = refusal("no-build", "a", ("x",), Way(cuda="12.6")), refusal("no-build", "b", ("y",))
    assert told(mine, its, answer=lambda spec: ()) == [] and mine.hint is None and its.hint is None


def test_ways_that_undo_each_other_are_none() -> None:
    mine, its = (refusal("no-build", one, ("x",), Way(python=python)) for one, python in (("a", "3.11"), ("b", "3.12")))
    assert told(mine, its, answer=lambda spec: ()) == [] and mine.hint is None


def test_a_way_that_leads_to_the_next_refusal_is_told_with_the_way_out_of_that() -> None:
    one = refusal("not-found", "a", ("x",), Way(sources=(("a", "own"),)))
    further = refusal("not-found", "b", ("x",), Way(sources=(("b", "own"),)))
    told(one, answer=lambda spec: () if "b" in spec.pip.sources else (further,))
    assert one.hint == 'add to [pip]: sources = { a = "own", b = "own" }'


def test_a_way_that_leads_to_a_refusal_or_to_something_far_behind_is_not_told() -> None:
    one = refusal("requires-python", "a", ("x",), Way(python="3.11"), Way(python="3.10"), Way(python="3.9"))
    answers = iter([(refusal("no-build", "c"),), None, ()])
    told(one, answer=lambda spec: next(answers))
    assert one.hint == 'python = "3.9"'


def test_what_the_machines_decide_needs_no_solution() -> None:
    one = refusal("glibc-too-old", "a", ("x",), Way(glibc="2.35", note="a 2 has wheels for it"))
    assert told(one, answer=lambda spec: ()) == []
    assert one.hint == 'if the machines have it, set glibc = "2.35" in the target: a 2 has wheels for it'


# What is tried is what is written.

TYPED = TEXT.replace("[targets.y]", "cuda='13.0'\n[targets.y]")
AS_TYPED = [
    (Way(python="3.11"), "python = '3.12'", 'python = "3.11"'),
    (Way(python="3.12", python_range="==3.12.5"), "python = '3.12'", 'python = "3.12.5"'),
    (Way(exclude_newer="2025-01-02"), "[pip]\n", 'exclude-newer = "2025-01-02"\n[pip]\n'),
    (Way(line="b<2"), "'b'", '"b<2"'),
    (Way(without=("b",)), "'b', ", ""),
    (Way(bounds=("d<2", "e>1")), "[targets.x]", 'constraints = ["d<2", "e>1"]\n[targets.x]'),
    (Way(line="torch<2"), "[targets.x]", 'constraints = ["torch<2"]\n[targets.x]'),
    (Way(corrections=("torch-numpy-2",)), "[targets.x]", 'without-corrections = ["torch-numpy-2"]\n[targets.x]'),
    (Way(accept=(("retreat", "a"),)), "[targets.x]", 'accept = { retreat = { a = "why" } }\n[targets.x]'),
    (Way(cuda="12.6"), "cuda='13.0'", 'cuda = "12.6"'),
    (Way(cuda_compat=True), "cuda='13.0'", "cuda='13.0'\ncuda-compat = true"),
    (Way(glibc="2.35"), "cuda='13.0'", "cuda='13.0'\nglibc = \"2.35\""),
]


@pytest.mark.parametrize(("way", "old", "new"), AS_TYPED, ids=[way.text for way, *_ in AS_TYPED])
def test_the_change_that_is_tried_is_the_one_that_is_written(way: Way, old: str, new: str) -> None:
    spec = parse_spec(TYPED, "demo.toml")
    written = write_way(way, spec, ("x",))
    assert way.without or any(line in written.text for line in new.split("\n") if line != old), "the text has it all"
    tried = spec_case(apply_way(spec, written, ("x",)))
    typed = spec_case(parse_spec(TYPED.replace(old, new), "demo.toml"))
    assert tried.shared == typed.shared
    assert {name: _without_reasons(one) for name, one in tried.targets.items()} == {
        name: _without_reasons(one) for name, one in typed.targets.items()
    }


def _without_reasons(inputs: TargetInputs) -> TargetInputs:
    return replace(inputs, accept=tuple((code, "") for code, _ in inputs.accept))


def test_a_requirement_is_written_with_its_own_extras_and_marker() -> None:
    text = TEXT.replace("'b'", "'b[x]>=1; sys_platform == \"linux\"', 'b==3; sys_platform == \"win32\"'")
    spec = parse_spec(text, "demo.toml")
    way = write_way(Way(line="b<1"), spec, ("x",))
    assert way.text == 'write "b[x]<1; sys_platform == "linux""'
    lines = [line.text for line in apply_way(spec, way, ("x",)).pip.dependencies]
    assert lines == ["a", 'b[x]<1; sys_platform == "linux"', 'b==3; sys_platform == "win32"', "c"]


_REMEDY = re.compile(
    r'[Nn]earest: |(?:cuda|python|glibc) = "[<>=]*\{\}'
    r'|"[\w{}.-]* ?(?:[<>=]=|[<>])\{\}"'
    r"|\b(?:take|write|hold|pin)\b[^;]*(?:[<>=]=?\{\}|\{\} or (?:older|newer))"
)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("folder", ["rules", "resolve"])
def test_what_names_a_version_to_take_is_a_way(folder: str) -> None:
    """Of a way, a judge tells whether it works; nobody judges a text."""
    for path in sorted((Path(envspec.__file__).parent / folder).rglob("*.py")):
        for one in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(one, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in one.values)
                outside = text.startswith("if the machines have it")
                assert outside or not _REMEDY.search(text), f"{path.name}:{one.lineno}: {text}"


# Conflicts that uv finds, on an index of this machine.


def too_new(index: Index) -> str:
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), wheel("server", "1.0"))
    return cpu("server")


def on_the_way(index: Index) -> str:
    index.add(
        wheel("server", "2.0", requires_python=">=3.9,<3.12"), wheel("server", "1.0"), wheel("app", "1.0", "server")
    )
    return cpu("app")


def too_old(index: Index) -> str:
    index.add(wheel("late", "1.0", requires_python=">=3.13"))
    return cpu("late")


def other_wheels(index: Index) -> str:
    index.add(wheel("native", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64"))
    return cpu("native")


def newer_glibc(index: Index) -> str:
    index.add(wheel("native", "1.0", tag="cp38-abi3-manylinux_2_31_x86_64"))
    return cpu("native")


def another_cuda(index: Index) -> str:
    index.add(
        wheel("kernels", "1.0", "nvidia-cublas-cu12"), wheel("nvidia-cublas-cu12", "12.8.1"), wheel("other", "1.0")
    )
    return cpu("kernels", "other", targets=TARGET)


def two_targets(index: Index) -> str:
    """Each has packages for the other's CUDA major."""
    index.add(wheel("old", "1.0", "nvidia-cublas-cu12"), wheel("nvidia-cublas-cu12", "12.8.1"), wheel("other", "1.0"))
    index.add(wheel("new", "1.0", "nvidia-cublas-cu13"), wheel("nvidia-cublas-cu13", "13.0.1"))
    older = TARGET.replace("[targets.t]", "[targets.u]").replace("13.0", "12.8")
    own = "[targets.{}.pip]\ndependencies = ['{}']\n"
    return cpu("other", targets=TARGET + own.format("t", "old") + older + own.format("u", "new"))


def before_its_day(index: Index) -> str:
    index.add(wheel("app", "1.0", "gone>=0.1"), uploaded="2021-05-01T00:00:00Z")
    index.add(wheel("gone", "0.4.13"), uploaded="2024-01-02T00:00:00Z")
    return cpu("app").replace("[pip]", "exclude-newer = '2021-12-22'\n[pip]", 1)


def bounds(index: Index) -> str:
    index.add(*(wheel("base", f"{major}.0") for major in (1, 2)), wheel("app", "1.0", "base<2"), wheel("app", "2.0"))
    return cpu("app<2", "base>=2")


def an_extra(index: Index) -> str:
    index.add(wheel("frame", "2.0"), wheel("frame", "3.0", requires_python=">=3.13", extras=("ice",)))
    return cpu("frame[ice]")


def another_build(index: Index) -> str:
    index.add(*stand_ins("cu130", "2.9.1"))
    return cpu("torch==2.9.1+cpu", targets=TARGET)


def another_makers_build(index: Index) -> str:
    index.add(*stand_ins("cu130", "2.9.1"))
    return cpu("torch==2.9.1+rocm7.1", targets=TARGET)


def an_arm_product_elsewhere(index: Index) -> str:
    index.add(wheel("other", "1.0"))
    return cpu("other", targets=TARGET.replace("H100", "GH200"))


def a_framework_for_cpus(index: Index) -> str:
    index.add(wheel("onnxruntime", "1.23.0"), wheel("onnxruntime-gpu", "1.24.0"))
    return cpu("onnxruntime", targets=TARGET.replace("13.0", "12.8"))


def another_vendors(index: Index) -> str:
    index.add(wheel("tensorflow-rocm", "2.14.0"), wheel("other", "1.0"))
    return cpu("tensorflow-rocm", "other", targets=TARGET)


CONFLICTS = [too_new, on_the_way, too_old, other_wheels, newer_glibc, another_cuda, two_targets, before_its_day, bounds,
             an_extra, another_build, another_makers_build, an_arm_product_elsewhere,
             a_framework_for_cpus, another_vendors]  # fmt: skip


def as_typed(text: str, way: str) -> str:
    """A spec with one way of a hint, as a person types it."""
    if written := re.search(r'write "(.*?)"', way):
        name = re.split(r"[\[<>=]", written[1])[0]
        text = re.sub(rf"'{name}\b[^']*'", f"'{written[1]}'", text)
    for name in re.findall(r"leave ([\w.-]+) out", way):
        text = re.sub(rf"'{name}',? ?", "", text)
    if more := re.search(r'add "(.*?)" to \[pip\] dependencies', way):
        text = text.replace("dependencies = [", f"dependencies = ['{more[1]}', ", 1)
    if "leave `cuda` and `gpus` out" in way:
        text = re.sub(r"(?m)^(cuda|gpus) = .*\n", "", text)
    if platform := re.search(r'platform = (".*?") in the target', way):
        text = re.sub(r"(?m)^platform = .*", f"platform = {platform[1]}", text)
    if python := re.search(r'python = (".*?")', way):
        text = re.sub(r"python = '.*?'", f"python = {python[1]}", text)
    if day := re.search(r'exclude-newer = (".*?")', way):
        text = re.sub(r"exclude-newer = '.*?'", f"exclude-newer = {day[1]}", text)
    for line in re.findall(r"add to \[pip\]: (.*?[\]}])(?: and |: |$)", way):
        text = re.sub(r"(dependencies = .*)", rf"\1\n{line}", text, count=1)
    for key, value in re.findall(r'(cuda|glibc) = (".*?") in the target', way):
        text = re.sub(rf"(?m)^{key} = .*\n", "", text)
        text = re.sub(r"(platform = .*)", rf"\1\n{key} = {value}", text, count=1)
    return text


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize("conflict", CONFLICTS, ids=lambda one: one.__name__)
def test_each_printed_way_gives_a_lock_as_it_is_typed(
    machine: Machine, index: Index, conflict: Callable[[Index], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    solves = count()
    monkeypatch.setattr(f"{relock.__module__}.solve", lambda *given: next(solves) < 0 or solve(*given))
    text = conflict(index)
    ran = machine.envspec("lock", machine.spec(text), "--json", status=1)
    assert next(solves) <= 1 + SOLVES
    hints = [str(error["hint"]) for error in valid(ran.out, "error")["errors"]]
    several = [hint.split("; or ") for hint in hints]
    ways = [[way for way in each if re.search(r'= "|write|leave|add to', way)] for each in several]
    assert all(ways), hints
    for way in ways[0]:
        edited = as_typed(text, way)
        if len(ways) > 1:
            first, second = edited.split("[targets.u]")
            edited = f"{first}[targets.u]{as_typed(second, ways[1][0])}"
        assert edited != text, way
        ran = machine.envspec("lock", machine.spec(edited), "--dry-run")
        assert ran.status == 0 and "far-behind" not in ran.out + ran.err, (way, ran.err)


@pytest.mark.e2e
def test_what_a_way_takes_far_back_is_not_told(machine: Machine, index: Index) -> None:
    """`server<=1.0` locks, and is a release three years older than what the spec admits."""
    index.add(wheel("server", "1.0"), uploaded="2021-01-01T00:00:00Z")
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), uploaded="2024-01-01T00:00:00Z")
    ran = machine.envspec("lock", machine.spec(cpu("server")), status=1)
    assert 'python = "3.11"' in ran.hint and "server<=1.0" not in ran.hint, ran.err
    machine.envspec("lock", machine.spec(cpu("server<=1.0")), "--dry-run", status=0)


@pytest.mark.slow
@pytest.mark.e2e
def test_each_targets_first_refusal_is_told_and_equal_ones_once(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), wheel("late", "1.0", requires_python=">=3.13"))
    of = "[targets.{0}]\nplatform = 'linux-64'\nglibc = '{1}'\n[targets.{0}.pip]\ndependencies = ['{2}']\n"
    targets = (("a", "2.28", "server"), ("b", "2.35", "server"), ("c", "2.28", "late"))
    spec = cpu("pad", targets="".join(of.format(*one) for one in targets))
    index.add(wheel("pad", "1.0"))
    ran = machine.envspec("lock", machine.spec(spec), "--json", status=1)
    errors = valid(ran.out, "error")["errors"]
    assert sorted((one["code"], tuple(one["targets"])) for one in errors) == [
        ("requires-python", ("a", "b")), ("unsatisfiable", ("c",))
    ], ran.err  # fmt: skip


@pytest.mark.e2e
def test_what_the_facts_refuse_of_one_target_is_told_with_what_uv_refuses_of_another(
    machine: Machine, index: Index
) -> None:
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"))
    volta = TARGET.replace("H100", "V100")
    spec = cpu("server", targets=f"{volta}[targets.c]\nplatform = 'linux-64'\n")
    ran = machine.envspec("lock", machine.spec(spec), "--json", status=1)
    errors = valid(ran.out, "error")["errors"]
    assert [(one["code"], one["targets"]) for one in errors] == [
        ("cuda-dropped-gpu", ["t"]),
        ("requires-python", ["c"]),
    ]


@pytest.mark.e2e
def test_sources_of_a_way_are_told_with_it(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "2.0", "old", requires_python=">=3.9,<3.12"), wheel("server", "1.0", "old"))
    index.add(wheel("server", "2.1", "old"), sdist("old", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("server<2.1")))
    assert ran.status == 1 and ran.err.count("error: ") == 1 and "server 2.0 doesn't take Python" in ran.error, ran.err
    assert 'write "server==2.1" and if you trust its code, add to [pip]: allow-source = ["old"]' in ran.hint


@pytest.mark.slow
@pytest.mark.e2e
def test_allowed_sources_are_no_longer_told_beside_what_else_is_refused(machine: Machine, index: Index) -> None:
    """Else the hint names the option that was given, again and again."""
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), sdist("old", "1.0"))
    machine.spec(cpu("kernels", "old", targets=TARGET))
    index.add(wheel("kernels", "1.0", "nvidia-cublas-cu12"), wheel("nvidia-cublas-cu12", "12.8.1"))
    assert machine.envspec("lock", "specs/demo.toml", status=1).err.count("error: ") == 2
    ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed", status=1)
    assert ran.err.count("error: ") == 1 and "belongs to CUDA 12" in ran.error, ran.err
    assert '"old"' in (machine.folder / "specs" / "demo.toml").read_text()


@pytest.mark.e2e
def test_sources_of_another_project_of_the_name_are_not_asked_for(machine: Machine, index: Index) -> None:
    """The hint names NVIDIA's Apex in place of PyPI's: what that one is made of isn't needed then."""
    index.add(sdist("apex", "0.9", "cryptacular"), sdist("cryptacular", "1.0"), sdist("old", "1.0"))
    machine.spec(cpu("apex", "old", targets=TARGET))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "NVIDIA's Apex is on no index" in ran.err and 'allow-source = ["old"]' in ran.err, ran.err
    assert "cryptacular" not in ran.err.rpartition("error: ")[2], "but where PyPI's is taken knowingly"
    machine.spec(cpu("apex", targets=TARGET))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert ran.err.count("error: ") == 1 and "NVIDIA's Apex" in ran.hint and "--allow-needed" not in ran.err, ran.err
    machine.spec(cpu("apex", extra="accept = { no-cuda-backend = { apex = 'it is Pyramid' } }", targets=TARGET))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert 'allow-source = ["apex", "cryptacular"]' in ran.hint, ran.err


@pytest.mark.e2e
def test_a_source_for_other_gpus_is_told_before_it_is_allowed(machine: Machine, index: Index) -> None:
    index.add(sdist("flash-attn", "2.8.3"))
    machine.spec(cpu("flash-attn", targets=TARGET.replace("H100", "T4")))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "flash-attn 2.8.3 has no code for sm_75 (T4): its kernels are for 8.0" in ran.err, ran.err
    assert 'allow-source = ["flash-attn"]' in ran.err


@pytest.mark.slow
@pytest.mark.e2e
def test_what_speaks_of_a_lock_is_told_with_it_and_once(machine: Machine, index: Index) -> None:
    """What is locked isn't said of a spec that is refused; nor does a lock that allows a source first say all twice."""
    lib = wheel("lib", "1.0", tag="cp312-cp312-manylinux_2_17_x86_64"), wheel("lib", "2.0", requires_python="<3.12")
    others = wheel("faiss-cpu", "1.7.4"), wheel("numpy", "1.26.4"), sdist("old", "1.0")
    index.add(*lib, *others, uploaded="2024-01-01T00:00:00Z")
    machine.spec(cpu("faiss-cpu", "lib", "old").replace("[env]", "[env]\nexclude-newer = '1 day'"))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "is locked" not in ran.err and "numpy added" in ran.err, ran.err
    ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed", status=0)
    for said in ("lib 1.0 is locked: 2.0 doesn't take Python", "numpy added", "nothing published after"):
        assert ran.err.count(said) == 1, ran.err


@pytest.mark.e2e
def test_one_option_allows_the_sources_of_all_addresses(machine: Machine, index: Index) -> None:
    """What only a solution would need from source comes with the next run of the option."""
    index.add(sdist("old", "1.0"))
    machine.spec(cpu("repo @ git+https://127.0.0.1:9/repo.git", "far @ https://127.0.0.1:9/far-1.tar.gz", "old"))
    ran = machine.envspec("lock", "specs/demo.toml", status=2)
    assert ran.err.count("error: ") == 2 and ran.err.count("hint: ") == 1 and "--allow-needed" in ran.err, ran.err
    assert 'or add to [pip]: allow-source = ["' in ran.err, ran.err
    ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed")
    assert "built from source" not in ran.error and "127.0.0.1:9" in ran.error, ran.err
    assert {"repo", "far"} <= set(load_spec(str(machine.folder / "specs" / "demo.toml")).pip.allow_source)


@pytest.mark.slow
@pytest.mark.e2e
def test_a_day_before_all_releases_is_told_with_the_first_that_does(machine: Machine, index: Index) -> None:
    """Old releases go: PyPI's oldest jaxlib is of 2023-10-07."""
    index.add(wheel("app", "1.0", "gone>=0.1"), uploaded="2021-05-01T00:00:00Z")
    index.add(wheel("gone", "0.4.13"), uploaded="2024-01-02T00:00:00Z")
    index.add(wheel("gone", "0.4.18"), uploaded="2023-10-07T00:17:09Z")
    index.add(wheel("gone", "0.3", requires_python="<3.12"), uploaded="2023-01-02T00:00:00Z")
    day = "exclude-newer = '2021-12-22'\n[pip]"
    ran = machine.envspec("lock", machine.spec(cpu("app").replace("[pip]", day, 1)))
    said = 'exclude-newer = "2023-10-08" in [env]: the first release of gone that fits, 0.4.18, is of 2023-10-07'
    assert ran.status == 1 and ran.err.splitlines()[-1].startswith(f"hint: {said}"), ran.err
    machine.locked(spec=cpu("app").replace("[pip]", day.replace("2021-12-22", "2023-10-08"), 1))
    # a date that leaves what the spec asks for isn't all that stands in the way
    ran = machine.envspec("lock", machine.spec(cpu("app", "gone<0.2").replace("[pip]", day, 1)))
    assert ran.status == 1 and 'hint: exclude-newer = "2023-10-08" in [env] and write "gone"' in ran.err, ran.err


@pytest.mark.slow
@pytest.mark.e2e
def test_a_day_between_a_release_and_what_it_needs(machine: Machine, index: Index) -> None:
    """torch 2.0.0 came five days before triton 2.0.0, of which there were older ones."""
    index.add(wheel("app", "2.0", "lib==2.0"), wheel("lib", "1.0"), uploaded="2023-03-15T15:56:59Z")
    index.add(wheel("lib", "2.0"), wheel("lib", "3.0"), uploaded="2023-03-20T17:32:17.169Z")
    day = "exclude-newer = '2023-03-16'\n[pip]"
    said = 'exclude-newer = "2023-03-21" in [env]: the first release of lib that fits, 2.0, is of 2023-03-20'
    for asked in ("app", "lib>1,<3"):
        ran = machine.envspec("lock", machine.spec(cpu(asked).replace("[pip]", day, 1)))
        assert ran.status == 1 and ran.err.splitlines()[-1].startswith(f"hint: {said}"), ran.err
