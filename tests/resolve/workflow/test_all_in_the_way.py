"""All that stands in the way of a lock is one error, ranked, each with ways that a whole lock has proved."""

import ast
import re
from collections.abc import Collection
from pathlib import Path

import pytest
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel

import envspec
from envspec.base.errors import IndexFailure, Infeasible, Way, parts
from envspec.resolve.workflow.obstacles import Attempt, all_in_the_way, attempt_of
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec, parse_spec

TARGET = "[targets.t]\nplatform = 'linux-64'\ncuda = '13.0'\ngpus = ['H100']\n"


def everything(index: Index) -> str:
    """A spec of which a source, a glibc, a Python, a CUDA, a repository and a URL each stand in the way."""
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), wheel("server", "1.0"))
    index.add(wheel("newer-glibc", "1.0", tag="cp38-abi3-manylinux_2_31_x86_64"))
    index.add(sdist("old", "1.0"), wheel("uses-old", "1.0", "old"))
    index.add(wheel("kernels", "1.0", "nvidia-cublas-cu12"), wheel("nvidia-cublas-cu12", "12.8.1"))
    asked = ("server", "newer-glibc", "uses-old", "kernels", "repo @ git+https://127.0.0.1:9/none/repo.git",
             "far @ https://127.0.0.1:9/far-1.0.tar.gz")  # fmt: skip
    return cpu(*asked, extra="allow-source = ['repo']", targets=TARGET)


@pytest.mark.e2e
@pytest.mark.slow
def test_all_that_stands_in_the_way_is_told_at_once(machine: Machine, index: Index) -> None:
    ran = machine.envspec("lock", machine.spec(everything(index)), "--json")
    assert ran.status == 1 and not machine.lock_path().exists(), ran.err
    errors = valid(ran.out, "error")["errors"]
    assert [one["code"] for one in errors] == [
        "requires-python", "glibc-too-old", "cuda-major-mixed", "source-needed", "source-needed", "unreachable"
    ], ran.err  # fmt: skip
    assert ran.err.count("error: ") == 6 and all(one["targets"] == ["t"] and one["line"] for one in errors)
    python, glibc, cuda, url, source, git = (one["hint"] for one in errors)
    assert python.startswith('python = "3.11"; or to take 1.0 knowingly, write "server<=1.0"; or if it works for you')
    assert 'set glibc = "2.31" in the target' in glibc and cuda.startswith('cuda = "12.9" in the target; or leave')
    assert url is None and 'allow-source = ["far", "old"]' in source and "the revision" in git


@pytest.mark.e2e
def test_what_is_refused_after_a_change_says_which(machine: Machine, index: Index) -> None:
    """CUDA 13 has no Volta; with CUDA 12.9 a package for CUDA 13 is in the way, and the spec says 13.0."""
    index.add(wheel("kernels", "1.0", "nvidia-cublas-cu13"), wheel("nvidia-cublas-cu13", "13.0.1"))
    ran = machine.envspec("lock", machine.spec(cpu("kernels", targets=TARGET.replace("H100", "V100"))))
    first, second = (line for line in ran.err.splitlines() if line.startswith("error: "))
    assert "CUDA 13.0 has dropped Volta" in first and "once changed" not in first
    assert "the target is for CUDA 12.9" in second and second.endswith("(once changed to CUDA 12.9)")


@pytest.mark.e2e
def test_sources_of_a_refused_package_are_told_with_its_ways_alone(machine: Machine, index: Index) -> None:
    index.add(wheel("server", "2.0", "old", requires_python=">=3.9,<3.12"), wheel("server", "1.0", "old"))
    index.add(wheel("server", "2.1", "old"), sdist("old", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("server<2.1")))
    assert ran.status == 1 and ran.err.count("error: ") == 1 and "server 2.0 doesn't take Python" in ran.error, ran.err
    assert 'take server==2.1, which the bounds leave out, with allow-source = ["old"]; or' in ran.hint


@pytest.mark.e2e
def test_allowed_sources_are_no_longer_told_beside_what_else_is_refused(machine: Machine, index: Index) -> None:
    """Else the hint names the option that was given, again and again."""
    index.add(wheel("server", "2.0", requires_python=">=3.9,<3.12"), sdist("old", "1.0"))
    machine.spec(cpu("server", "old"))
    assert machine.envspec("lock", "specs/demo.toml", status=1).err.count("error: ") == 2
    ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed", status=1)
    assert ran.err.count("error: ") == 1 and "server 2.0 doesn't take Python" in ran.error, ran.err
    assert '"old"' in (machine.folder / "specs" / "demo.toml").read_text()


@pytest.mark.e2e
def test_sources_of_another_project_of_the_name_are_not_asked_for(machine: Machine, index: Index) -> None:
    """The hint names NVIDIA's Apex in place of PyPI's: what that one is made of isn't needed then."""
    index.add(sdist("apex", "0.9", "cryptacular"), sdist("cryptacular", "1.0"), sdist("old", "1.0"))
    machine.spec(cpu("apex", "old", targets=TARGET))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "NVIDIA's Apex is on no index" in ran.err and 'allow-source = ["old"]' in ran.err, ran.err
    assert "cryptacular" not in ran.err
    machine.spec(cpu("apex", targets=TARGET))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert ran.err.count("error: ") == 1 and "NVIDIA's Apex" in ran.hint and "allow-source" not in ran.err, ran.err
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
    index.add(sdist("old", "1.0"))
    machine.spec(cpu("repo @ git+https://127.0.0.1:9/repo.git", "far @ https://127.0.0.1:9/far-1.tar.gz", "old"))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert ran.err.count("error: ") == 3 and ran.err.count("hint: ") == 1 and "--allow-needed" in ran.err, ran.err
    assert 'or add to [pip]: allow-source = ["' in ran.err and ran.err.endswith('"old"]\n'), ran.err
    ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed")
    assert "built from source" not in ran.error and "127.0.0.1:9" in ran.error, ran.err
    allowed = load_spec(str(machine.folder / "specs" / "demo.toml")).pip.allow_source
    assert {"repo", "far", "old"} == set(allowed)


SPEC = parse_spec(
    cpu("a", "b", "c", targets="[targets.x]\nplatform='linux-64'\n[targets.y]\nplatform='linux-64'\n"), "demo.toml"
)


def refusal(code: str, about: str, targets: tuple[str, ...] = ("x", "y"), *ways: Way) -> Infeasible:
    error = Infeasible(f"{about} is refused").with_packages(about)
    error.code, error.targets, error.ways = code, targets, ways
    return error


def test_what_blocks_most_comes_first_and_once() -> None:
    one, most = refusal("no-build", "a", ("x",)), refusal("no-build", "b")
    first = Attempt((one, most, refusal("no-build", "b")), whole=True)
    told = all_in_the_way(SPEC, ("x", "y"), first, lambda spec, names: first)
    assert parts(told) == (most, one)


def test_a_way_is_told_only_where_nothing_new_stands_in_it() -> None:
    """Python 3.11 has a refusal of its own, Python 3.10 none beside the one that another way lifts."""
    way, other = Way('python = "3.10"', python="3.10"), Way('python = "3.11"', python="3.11")
    mine, its = refusal("requires-python", "a", ("x",), way, other), refusal("cuda-major-mixed", "b")

    def attempt(spec: Spec, names: Collection[str]) -> Attempt:
        assert set(names) == {"x", "y"}, "Python is every target's"
        return Attempt((its,) if spec.python == "3.10" else (its, refusal("no-build", "c")), whole=True)

    all_in_the_way(SPEC, ("x", "y"), Attempt((mine, its), whole=True), attempt)
    assert mine.hint == 'python = "3.10"' and its.hint is None


def test_what_only_a_way_brings_about_isnt_told_where_another_has_a_lock() -> None:
    old, older = Way("3.11", python="3.11"), Way("3.10", python="3.10")
    one = refusal("requires-python", "a", ("x",), old, older)

    def attempt(spec: Spec, names: Collection[str]) -> Attempt:
        return Attempt((), whole=True) if spec.python == "3.10" else Attempt((refusal("no-build", "c"),), whole=False)

    told = all_in_the_way(SPEC, ("x", "y"), Attempt((one,), whole=False), attempt)
    assert told is one and one.hint == "3.10"


def test_a_network_that_fails_leaves_what_the_facts_have_passed() -> None:
    one = refusal("no-build", "torch", ("x",), Way("CUDA 12.6", near=True, cuda="12.6"), Way("a<2", bounds=("a<2",)))
    down = attempt_of(IndexFailure("no answer"))
    told = all_in_the_way(SPEC, ("x", "y"), Attempt((one,), whole=False), lambda spec, names: down)
    assert told is one and one.hint == "Nearest: CUDA 12.6"


def test_a_change_reaches_the_targets_that_it_is_for() -> None:
    (one,) = [refusal("built-for-another", "b", ("x",), Way("b 1", line="b==1", glibc="2.35"))]
    seen: list[Spec] = []

    def attempt(spec: Spec, names: Collection[str]) -> Attempt:
        seen.append(spec)
        return Attempt((), whole=True)

    all_in_the_way(SPEC, ("x", "y"), Attempt((one,), whole=True), attempt)
    lines = {target.name: [line.text for line in seen[0].pip_dependencies(target)] for target in seen[0].targets}
    assert lines == {"x": ["a", "b==1", "c"], "y": ["a", "b", "c"]}
    assert [target.glibc for target in seen[0].targets] == ["2.35", "2.28"] and one.hint == "b 1"


def test_a_match_spec_that_the_spec_lacks_is_one_more() -> None:
    one = refusal("cudnn-architecture", "a", ("x",), Way("cudnn", conda="cudnn <9.11"))
    seen: list[Spec] = []

    def attempt(spec: Spec, names: Collection[str]) -> Attempt:
        seen.append(spec)
        return Attempt((), whole=True)

    all_in_the_way(SPEC, ("x", "y"), Attempt((one,), whole=True), attempt)
    lines = {target.name: [line.text for line in seen[0].conda_dependencies(target)] for target in seen[0].targets}
    assert lines == {"x": ["cudnn <9.11"], "y": []}


_REMEDY = re.compile(
    r'[Nn]earest: |(?:cuda|python|glibc) = "[<>=]*\{\}'
    r'|"[\w{}.-]* ?(?:[<>=]=|[<>])\{\}'
    r"|\b(?:take|write|hold|pin)\b[^;]*(?:[<>=]=?\{\}|\{\} or (?:older|newer))"
)


@pytest.mark.parametrize("folder", ["rules", "resolve"])
def test_what_names_a_version_to_take_is_a_way(folder: str) -> None:
    """Of a way, a judge tells whether it works; nobody judges a text. What the machines must have is no change of the
    spec alone, and begins with "if"."""
    for path in sorted((Path(envspec.__file__).parent / folder).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        calls = (
            one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) in ("Way", "_torch")
        )
        judged = {id(one) for call in calls for one in ast.walk(call)}
        for one in ast.walk(tree):
            if isinstance(one, ast.JoinedStr) and id(one) not in judged:
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in one.values)
                outside = text.startswith("if the machines have it")
                assert outside or not _REMEDY.search(text), f"{path.name}:{one.lineno}: {text}"


@pytest.mark.e2e
def test_a_day_before_all_releases_is_told_with_the_first_that_does(machine: Machine, index: Index) -> None:
    """Old releases go: PyPI's oldest jaxlib is of 2023-10-07."""
    index.add(wheel("app", "1.0", "gone>=0.1"), uploaded="2021-05-01T00:00:00Z")
    index.add(wheel("gone", "0.4.13"), uploaded="2024-01-02T00:00:00Z")
    index.add(wheel("gone", "0.4.18"), uploaded="2023-10-07T00:17:09Z")
    index.add(wheel("gone", "0.3", requires_python="<3.12"), uploaded="2023-01-02T00:00:00Z")
    day = "exclude-newer = '2021-12-22'\n[pip]"
    ran = machine.envspec("lock", machine.spec(cpu("app").replace("[pip]", day, 1)))
    told = 'exclude-newer = "2023-10-08" in [env]: the first release of gone that fits, 0.4.18, is of 2023-10-07'
    assert ran.status == 1 and ran.err.splitlines()[-1].startswith(f"hint: {told}"), ran.err
    machine.locked(spec=cpu("app").replace("[pip]", day.replace("2021-12-22", "2023-10-08"), 1))
    # a date that leaves what the spec asks for isn't what stands in the way
    ran = machine.envspec("lock", machine.spec(cpu("app", "gone<0.2").replace("[pip]", day, 1)))
    assert ran.status == 1 and "2023-10-08" not in ran.err, ran.err


@pytest.mark.e2e
def test_a_day_between_a_release_and_what_it_needs(machine: Machine, index: Index) -> None:
    """torch 2.0.0 came five days before triton 2.0.0, of which there were older ones."""
    index.add(wheel("app", "2.0", "lib==2.0"), wheel("lib", "1.0"), uploaded="2023-03-15T15:56:59Z")
    index.add(wheel("lib", "2.0"), wheel("lib", "3.0"), uploaded="2023-03-20T17:32:17.169Z")
    day = "exclude-newer = '2023-03-16'\n[pip]"
    told = 'exclude-newer = "2023-03-21" in [env]: the first release of lib that fits, 2.0, is of 2023-03-20'
    for asked in ("app", "lib>1,<3"):
        ran = machine.envspec("lock", machine.spec(cpu(asked).replace("[pip]", day, 1)))
        assert ran.status == 1 and ran.err.splitlines()[-1].startswith(f"hint: {told}"), ran.err
