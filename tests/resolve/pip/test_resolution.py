"""Whole resolutions with the real uv, against an index on loopback."""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

import pytest
from resolutions import ARM, CUDA, LINUX, MAC, WINDOWS, Watched, lock, targets
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import Dist, sdist, wheel
from support.torch_packages import stand_ins
from uv import find_uv_bin

from envspec.lock.model import Lock
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.pip.compile import UvCompile, compile_request
from envspec.resolve.pip.setup import pip_resolver
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.program import Processes
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import load_spec

pytestmark = pytest.mark.e2e


def versions(lock: Lock, target: str) -> Mapping[str, str]:
    found = lock.target(target)
    assert found is not None
    return {pin.name: pin.version for pin in found.pins}


def test_pins_say_all_that_the_lock_needs(machine: Machine, index: Index) -> None:
    index.add(
        wheel(
            "alpha",
            "1.0",
            "beta[fast]>=1; python_version >= '3'",
            "windows-only; sys_platform == 'win32'",
            licence="BSD-3-Clause",
        ),
        wheel("beta", "2.0", "gamma; extra == 'fast'", "delta; extra == 'slow'", extras=["fast", "slow"]),
        wheel("gamma", "1.5.post1"),
    )
    machine.spec(cpu("alpha"))
    (target,) = lock(machine)
    by_name = {pin.name: pin for pin in target.pins}
    assert list(by_name) == ["alpha", "beta", "gamma"]
    alpha = by_name["alpha"]
    assert (alpha.index, alpha.direct, alpha.licence) == ("pypi", True, "BSD-3-Clause")
    assert alpha.artifact is not None and alpha.artifact.size
    assert alpha.dependencies == ('beta[fast]>=1; python_version >= "3"',)
    assert by_name["beta"].dependencies == ('gamma; extra == "fast"',)
    assert not by_name["beta"].direct


def test_equal_questions_of_targets_are_asked_once(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def compile_one(question: UvCompile) -> tuple[Found, ...]:
        asked.append(question.label)
        return compile_request(question)

    monkeypatch.setattr("envspec.resolve.pip.target_solver.compile_request", compile_one)
    index.add(wheel("alpha", "1.0"))
    machine.spec(cpu("alpha", targets=targets(a=LINUX, b=LINUX, c=f"{LINUX}\nglibc = '2.31'", d=MAC)))
    watched = Watched()
    found = lock(machine, progress=watched)
    assert {target.name: versions(found, target.name) for target in found} == {
        name: {"alpha": "1.0"} for name in "abcd"
    }
    assert (asked[0], sorted(asked)) == ("a", ["a", "c", "d"])
    assert sorted(watched.solved) == [("a",), ("b",), ("c",), ("d",)]
    assert watched.total == 1


def test_targets_share_versions_where_they_can(machine: Machine, index: Index) -> None:
    """What only one target's platform holds down, all targets take: one version in the whole lock."""
    index.add(
        wheel("alpha", "1.0"), wheel("alpha", "2.0", tag="cp312-cp312-manylinux_2_28_x86_64"), wheel("beta", "1.0")
    )
    machine.spec(cpu("alpha", "beta", targets=targets(linux=LINUX, mac=MAC)))
    found = lock(machine)
    assert versions(found, "linux") == versions(found, "mac") == {"alpha": "1.0", "beta": "1.0"}


@pytest.mark.parametrize(
    ("lines", "tag"),
    first_by_day(
        3,
        [
            (LINUX, "cp312-cp312-manylinux_2_28_x86_64"),
            (f"{LINUX}\nglibc = '2.17'", "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64"),
            (f"{LINUX}\nglibc = '2.34'", "cp312-cp312-manylinux_2_34_x86_64"),
            (ARM, "cp312-cp312-manylinux_2_28_aarch64"),
            (MAC, "cp312-cp312-macosx_11_0_arm64"),
            (WINDOWS, "cp312-cp312-win_amd64"),
        ],
    ),
)
def test_each_platform_gets_its_own_wheel(machine: Machine, index: Index, lines: str, tag: str) -> None:
    tags = [
        "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp312-cp312-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_34_x86_64",
        "cp312-cp312-manylinux_2_40_x86_64",
        "cp312-cp312-manylinux_2_28_aarch64",
        "cp312-cp312-macosx_11_0_arm64",
        "cp312-cp312-win_amd64",
        "cp311-cp311-manylinux_2_28_x86_64",
        "py3-none-any",
    ]
    index.add(*(wheel("alpha", "1.0", tag=one) for one in tags))
    machine.spec(cpu("alpha", targets=targets(t=lines)))
    ((pin,),) = (target.pins for target in lock(machine))
    assert pin.artifact is not None and pin.artifact.file == f"alpha-1.0-{tag}.whl"


@pytest.mark.by_day(2)
@pytest.mark.parametrize("tags", [("", "1-", "2-"), ("9-", "10-"), ("1-", "1a-", "1b-", ""), ("0-", "")], ids=repr)
def test_the_wheel_with_the_highest_build_tag_is_taken_as_by_uv(
    machine: Machine, index: Index, tags: tuple[str, ...]
) -> None:
    index.add(*(wheel("alpha", "1.0", tag=f"{tag}py3-none-any") for tag in tags))
    machine.spec(cpu("alpha"))
    ((pin,),) = ([*target.pins] for target in lock(machine))
    index.asked.clear()
    uv = [find_uv_bin(), "pip", "install", "--no-config", "--no-cache", "--target", str(machine.base / "uv"), "alpha"]
    env = {**machine.environment(), "UV_DEFAULT_INDEX": index.url}
    subprocess.run([*uv, "--python", sys.executable], check=True, env=env, capture_output=True)
    assert pin.artifact is not None and index.paths(r"\.whl$")[-1] == f"/files/{pin.artifact.file}"


@pytest.mark.slow
def test_old_pins_are_kept_until_asked(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"), wheel("gamma", "1.0"))
    machine.spec(cpu("alpha", "gamma", targets=targets(a=LINUX, b=MAC)))
    first = lock(machine)
    machine.default = None
    with Index() as later:  # another address: no page of the old one is in uv's cache
        for name in ("alpha", "beta", "gamma"):
            needs = ("beta",) if name == "alpha" else ()
            later.add(wheel(name, "1.0", *needs), wheel(name, "2.0", *needs))
        machine.default = later.url
        assert lock(machine, first) == first
        one = lock(machine, first, Upgrade(packages=frozenset({"Beta"})))
        assert versions(one, "a") == versions(one, "b") == {"alpha": "1.0", "beta": "2.0", "gamma": "1.0"}
        everything = lock(machine, first, Upgrade(everything=True))
        assert versions(everything, "a") == versions(everything, "b") == {"alpha": "2.0", "beta": "2.0", "gamma": "2.0"}
        machine.spec(cpu("alpha>=2", "gamma", targets=targets(a=LINUX, b=MAC)))
        forced = lock(machine, first)
        assert versions(forced, "a") == versions(forced, "b") == {"alpha": "2.0", "beta": "1.0", "gamma": "1.0"}


def test_exclude_newer(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), uploaded="2024-01-01T00:00:00Z")
    index.add(wheel("alpha", "2.0"), uploaded="2025-01-01T00:00:00Z")
    machine.spec(cpu("alpha").replace("[env]", "[env]\nexclude-newer = '2024-06-01'"))
    assert versions(lock(machine), "cpu") == {"alpha": "1.0"}
    machine.spec(cpu("alpha>1").replace("[env]", "[env]\nexclude-newer = '2024-06-01'"))
    with pytest.raises(Unsatisfiable) as error:
        lock(machine)
    said = "the first release of alpha that fits, 2.0, is of 2025-01-01"
    assert error.value.hint == f'exclude-newer = "2025-01-02" in [env]: {said}'


def test_pre_releases_only_where_they_are_named(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0rc1"), wheel("beta", "3.0a1"))
    machine.spec(cpu("alpha", "beta"))
    assert versions(lock(machine), "cpu") == {"alpha": "1.0", "beta": "3.0a1"}
    machine.spec(cpu("alpha>=2.0rc1"))
    assert versions(lock(machine), "cpu") == {"alpha": "2.0rc1"}


@pytest.mark.parametrize("asking", ["a", "z"])
def test_a_pre_release_of_one_target_is_no_other_s(machine: Machine, index: Index, asking: str) -> None:
    """Neither where it is solved first, nor where a later target is new beside a lock."""
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0rc1"))
    own = f"{LINUX}\n[targets.{asking}.pip]\ndependencies = ['alpha>=2.0rc1']"
    machine.spec(f"[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha']\n{targets(**{asking: own})}")
    first = lock(machine)
    machine.spec(f"[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha']\n{targets(**{asking: own, 'm': MAC})}")
    for old in (None, first):
        made = lock(machine, old)
        assert (versions(made, asking)["alpha"], versions(made, "m")["alpha"]) == ("2.0rc1", "1.0"), old


def test_yanked_releases_are_passed_over(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0")).add(wheel("alpha", "2.0"), yanked="broken")
    machine.spec(cpu("alpha"))
    assert versions(lock(machine), "cpu") == {"alpha": "1.0"}


def test_metadata_is_read_once(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
    machine.spec(cpu("alpha"))
    first, second = Watched(), Watched()
    old = lock(machine, progress=first)
    index.asked.clear()
    assert lock(machine, progress=second) == old
    assert (first.total, second.total) == (2, 0)
    assert index.paths("^/files/") == []


def test_no_interpreter_of_the_target_and_none_on_the_path_is_needed(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", requires_python=">=3.13"))
    machine.variables["PATH"] = str(machine.base / "missing")
    machine.spec(cpu("alpha", python="3.13"))
    assert versions(lock(machine), "cpu") == {"alpha": "1.0"}


def test_settings_that_would_change_the_answer_are_kept_out(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"), wheel("alpha", "3.0a1"))
    with Index() as stranger:
        stranger.add(wheel("alpha", "9.0"))
        machine.variables |= {
            "UV_EXTRA_INDEX_URL": stranger.url,
            "UV_INDEX": stranger.url,
            "UV_RESOLUTION": "lowest",
            "UV_PRERELEASE": "allow",
            "UV_EXCLUDE_NEWER": "2001-01-01T00:00:00Z",
            "UV_CONSTRAINT": str(machine.base / "missing"),
            "UV_NO_INDEX": "1",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_TORCH_BACKEND": "auto",
            "VIRTUAL_ENV": str(machine.base / "missing"),
        }
        uv_toml = machine.home / ".config" / "uv" / "uv.toml"
        uv_toml.parent.mkdir(parents=True)
        uv_toml.write_text(
            f'resolution = "lowest"\nextra-index-url = ["{stranger.url}"]\n[pip]\nprerelease = "allow"\n'
        )
        machine.spec(cpu("alpha"))
        assert versions(lock(machine), "cpu") == {"alpha": "2.0"}
        assert stranger.asked == []


def test_the_users_uv_toml_names_the_default_index(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.default = None
    uv_toml = machine.home / ".config" / "uv" / "uv.toml"
    uv_toml.parent.mkdir(parents=True)
    uv_toml.write_text(f'[[index]]\nurl = "{index.url}"\ndefault = true\n')
    machine.variables["PIP_CONFIG_FILE"] = "/dev/null"
    machine.spec(cpu("alpha"))
    assert versions(lock(machine), "cpu") == {"alpha": "1.0"}


def test_offline_with_an_empty_cache_says_what_to_do(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.9.1"))
    machine.spec(cpu("torch==2.9.1", targets=targets(gpu=CUDA.format("12.6"))))
    ran = machine.envspec("lock", "specs/demo.toml", "--offline")
    assert ran.status == 3 and "run without --offline once" in ran.hint
    assert ran.error.startswith("error: gpu: not in the cache: ") and "tunnel" not in ran.err
    assert index.asked == []


@pytest.mark.slow
def test_a_web_proxy_is_not_asked_for_the_index_proxy(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.9.1"))
    machine.spec(cpu("torch==2.9.1", targets=targets(gpu=CUDA.format("12.6"))))
    nobody = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:9")
    ran = machine.envspec("lock", "specs/demo.toml", env=nobody)
    assert (ran.status, ran.err) == (0, "")


def test_a_new_target_takes_the_versions_of_the_others(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.locked(spec=cpu("alpha", targets=targets(x="platform = 'linux-64'")))
    with Index() as later:
        later.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"))
        machine.default = later.url
        machine.spec(cpu("alpha", targets=targets(x="platform = 'linux-64'", y="platform = 'osx-arm64'")))
        assert machine.envspec("lock", "specs/demo.toml", "--target", "y").status == 0
    assert machine.versions("x") == machine.versions("y") == {"alpha": "1.0"}


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("make", "terms"),
    [
        (wheel, "indexes = {{ own = '{url}' }}\nsources = {{ alpha = 'own' }}"),
        (wheel, "find-links = {{ own = './own' }}\nsources = {{ alpha = 'own' }}"),
        (sdist, "allow-source = ['alpha']"),
    ],
    ids=["index", "flat index", "source"],
)
def test_a_pin_of_an_index_that_uv_must_name_stays_as_all_others_do(
    machine: Machine, index: Index, make: Callable[..., Dist], terms: str
) -> None:
    folder = machine.folder / "specs" / "own"
    folder.mkdir()

    def publish(version: str) -> None:
        index.add(one := make("alpha", version))
        (folder / one.file).write_bytes(one.content)

    publish("1.0")
    index.add(wheel("beta", "1.0"))
    extra = terms.format(url=index.url)
    machine.locked(spec=cpu("alpha", extra=extra))
    publish("2.0")
    machine.locked("--refresh", spec=cpu("alpha", "beta", extra=extra))
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "1.0"}
    machine.locked("--upgrade")
    assert machine.versions("cpu") == {"alpha": "2.0", "beta": "1.0"}


@pytest.mark.slow
@pytest.mark.parametrize("theirs", ["+cu126", "+cu128"])
def test_a_new_target_takes_its_own_build_of_the_release_of_the_others(
    machine: Machine, index: Index, theirs: str
) -> None:
    """As flash-attn and torch-scatter, whose pages are for one torch and CUDA each."""
    pages, files = [machine.folder / "specs" / one for one in ("x", "y")], ("+cu126", theirs)
    for page, local in zip(pages, files, strict=True):
        page.mkdir()
        (page / (one := wheel("ext", f"1.0{local}")).file).write_bytes(one.content)

    def spec(*names: str) -> str:
        lines = "".join(
            f"[targets.{one}]\nplatform = 'linux-64'\npip.find-links = {{ own = './{one}' }}\n" for one in names
        )
        return cpu("ext", extra="sources = { ext = 'own' }", targets=lines)

    machine.locked(spec=spec("x"))
    for page, local in zip(pages, files, strict=True):
        (page / (one := wheel("ext", f"1.1{local}")).file).write_bytes(one.content)
    machine.locked(spec=spec("x", "y"))
    assert (machine.versions("x"), machine.versions("y")) == ({"ext": "1.0+cu126"}, {"ext": f"1.0{theirs}"})


def test_a_mirror_that_fails_is_told_by_its_own_address(machine: Machine, index: Index) -> None:
    machine.configure('pytorch = "http://127.0.0.1:9/whl"')
    ran = machine.envspec("lock", machine.spec(cpu("torch==99.0", targets=targets(t=CUDA.format("12.6")))))
    assert ran.status == 3 and "http://127.0.0.1:9/whl/cu126/torch/" in ran.error


def test_what_loses_its_dependencies_is_not_shared(machine: Machine, index: Index) -> None:
    """An old release without the dependency would fit both targets, and be another thing."""
    index.add(
        wheel("alpha", "0.1"), wheel("alpha", "2.0", "beta"), wheel("beta", "1.0", tag="cp312-cp312-macosx_11_0_arm64")
    )
    machine.locked(spec=cpu("alpha", targets=targets(a="platform = 'osx-arm64'", b="platform = 'linux-64'")))
    assert machine.versions("a") == {"alpha": "2.0", "beta": "1.0"}
    assert machine.versions("b") == {"alpha": "0.1"}


@pytest.mark.slow
def test_a_question_that_fails_ends_no_program_of_the_one_around_it(machine: Machine, index: Index) -> None:
    """What a build needs is asked while uv still solves for other targets."""
    index.add(wheel("alpha", "1.0"))
    machine.spec("[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha>=2']\n" + targets(a=LINUX))
    spec = load_spec(str(machine.folder / "specs" / "demo.toml"))
    ended: list[int] = []
    with pip_resolver(spec, machine.environment(), offline=False, refresh=False, progress=Watched()) as resolver:
        for around in (resolver.uv.processes, resolver.sources.processes):
            go = machine.folder / f"go-{len(ended)}"
            code = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"

            def outer(processes: Processes = around, code: str = code) -> None:
                ended.append(processes.run([sys.executable, "-c", code], cwd=machine.folder, env={}).returncode)

            thread = threading.Thread(target=outer)
            thread.start()
            with pytest.raises(Unsatisfiable):
                relock(RelockRequest(spec), Resolvers(resolver))
            go.touch()
            thread.join(20)
    assert ended == [0, 0]
