"""`envspec lock` takes the newest that the requirements allow, sources included."""

import pytest
import tomli
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, sdist, wheel

pytestmark = pytest.mark.e2e

NO_WHEEL = "published only as source: "


def legacy(name: str, version: str, *requires: str, witness: str) -> Dist:
    """A source of the time before metadata 2.2: setup.py, an egg-info folder, no pyproject.toml."""
    stem = name.replace("-", "_")
    code = f"open({witness!r}, 'a').write('ran')\nfrom setuptools import setup\nsetup()\n"
    return sdist(
        name,
        version,
        files={
            "PKG-INFO": f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n",
            "pyproject.toml": "",
            "setup.py": code,
            f"{stem}.egg-info/PKG-INFO": "",
            f"{stem}.egg-info/requires.txt": "\n".join(requires),
        },
    )


@pytest.fixture
def hydra(index: Index, machine: Machine) -> str:
    """Packages that stand to each other as hydra-core, omegaconf and antlr4-python3-runtime do. Gives the witness."""
    witness = str(machine.base / "witness")
    index.add(wheel("hydra", "0.11.3", "omega<1.5"), wheel("omega", "1.4.1"))
    index.add(wheel("hydra", "1.3.8", "omega>=2.2,<2.4", "antlr==4.9.*"), wheel("omega", "2.3.1", "antlr==4.9.*"))
    index.add(wheel("hydra", "1.4.0rc3", "omega>=2.4rc0"), wheel("omega", "2.4.1rc1"))
    index.add(legacy("antlr", "4.9.3", witness=witness), wheel("antlr", "4.13.2"), sdist("antlr", "4.13.2"))
    return witness


@pytest.mark.parametrize("asked", ["hydra", "hydra>=1.3.2"])
def test_the_newest_is_told_and_what_it_needs(machine: Machine, hydra: str, asked: str) -> None:
    ran = machine.envspec("lock", machine.spec(cpu(asked)))
    assert ran.status == 1 and ran.out == ""
    assert f"{NO_WHEEL}antlr 4.9.3 (hydra → antlr, pure Python, requirements unproved); " in ran.error
    assert "what antlr requires is certain only after a build" in ran.error
    assert 'run the same command with --allow-needed, or add to [pip]: allow-source = ["antlr"]' in ran.hint
    assert not machine.locks.exists() or machine.files() == {}


def test_all_are_named_at_once_for_all_targets(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", "lib"), sdist("lib", "2.0", "deep"), sdist("deep", "0.1", static=False))
    index.add(sdist("fast", "3.0", files={"src/fast.cu": ""}))
    targets = "[targets.a]\nplatform = 'linux-64'\n[targets.b]\nplatform = 'osx-arm64'\n"
    targets += "[targets.b.pip]\ndependencies = ['fast']\n"
    ran = machine.envspec("lock", machine.spec(cpu("app", targets=targets)), status=1)
    assert "a, b: the newest solution needs 3 packages published only as source: " in ran.error
    assert "deep 0.1 (app → lib → deep, pure Python, requirements unknown)" in ran.error
    assert "fast 3.0 (needs a compiler: src/fast.cu)" in ran.error
    assert "lib 2.0 (app → lib, pure Python)" in ran.error
    assert 'allow-source = ["deep", "fast", "lib"]' in ran.hint


STUB = '[build-system]\nrequires = ["wheel-stub"]\nbuild-backend = "wheel_stub.buildapi"\n[tool.wheel_stub]\n'


def test_a_source_that_downloads_its_wheel_names_the_index_that_has_it(machine: Machine, index: Index) -> None:
    """As torch-tensorrt's libraries, whose sources on PyPI are a pyproject.toml alone. What the hint says locks."""
    with Index() as makers:
        makers.add(wheel("engine-libs", "11.1", tag="py3-none-manylinux_2_28_x86_64"))
        address = f'index_url = "{makers.url}"\n'
        index.add(
            wheel("app", "1.0", "engine-libs"), sdist("engine-libs", "11.1", files={"pyproject.toml": STUB + address})
        )
        ran = machine.envspec("lock", machine.spec(cpu("app")), status=1)
        assert f"engine-libs 11.1 (app → engine-libs, its build downloads a wheel from {makers.url})" in ran.error
        lines = ran.hint.partition("lock its wheels by hash: add to [pip] ")[2].replace(" and sources", "\nsources")
        assert lines.count("\n") == 1 and 'sources = { engine-libs = "maker" }' in lines
        machine.envspec("lock", machine.spec(cpu("app", extra=lines)), status=0)
        engine = next(pin for pin in machine.lock().targets[0].pins if pin.name == "engine-libs")
        assert engine.is_wheel and engine.index == "maker"


@pytest.mark.parametrize("url", ["ftp://a", "https://a/\\u001b[2J", "https://a b", "https://u:p@a/", "https://a/?t=s"])
def test_an_address_that_is_none_is_not_told(machine: Machine, index: Index, url: str) -> None:
    index.add(sdist("engine-libs", "11.1", files={"pyproject.toml": f'{STUB}index_url = "{url}"\n'}))
    ran = machine.envspec("lock", machine.spec(cpu("engine-libs")), status=1)
    assert "engine-libs 11.1 (pure Python" in ran.error and "maker" not in ran.err


@pytest.mark.slow
def test_allow_needed_writes_them_and_goes_on(machine: Machine, index: Index) -> None:
    index.add(sdist("lib", "2.0", "deep"), sdist("deep", "0.1", "later", static=False), sdist("later", "1.0"))
    spec = "# mine\n" + cpu("lib").replace("[pip]\n", "[pip]  # what we use\n")
    ran = machine.envspec("lock", machine.spec(spec), "--allow-needed", status=0)
    # what deep requires is known only once it may be built
    assert ran.err.count("wrote allow-source into specs/demo.toml: ") == 2
    text = (machine.folder / "specs" / "demo.toml").read_text()
    assert tomli.loads(text)["pip"]["allow-source"] == ["deep", "lib", "later"]
    assert text.startswith("# mine\n") and "[pip]  # what we use\n" in text
    assert machine.versions("cpu") == {"deep": "0.1", "later": "1.0", "lib": "2.0"}
    assert machine.envspec("check").status == 0


@pytest.mark.slow
def test_what_runs_no_code_needs_no_permission(machine: Machine, index: Index) -> None:
    """And it alone: one that runs code is asked about, without the other."""
    setup = (
        "from setuptools import setup\nsetup(name='antlr', version='4.9.3', install_requires='gone;os_name==\"nt\"')"
    )
    info = "Metadata-Version: 1.0\nName: antlr\nVersion: 4.9.3\n"
    index.add(sdist("antlr", "4.9.3", files={"PKG-INFO": info, "pyproject.toml": "", "setup.py": setup}))
    index.add(wheel("hydra", "1.3.2", "antlr==4.9.*"), sdist("lib", "2.0", static=False))
    index.add(wheel("setuptools", "80.9.0"), wheel("wheel", "0.45.1"))
    machine.spec(cpu("hydra", "lib"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and "lib 2.0 (" in ran.error and "antlr" not in ran.error
    assert 'allow-source = ["lib"]' in ran.hint
    spec = cpu("hydra")
    machine.spec(spec)
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    note = "antlr 4.9.3 is built from source without allow-source: its setup.py is one setup() of literals"
    assert f"note: cpu: {note}\n" in ran.err
    assert machine.versions("cpu") == {"antlr": "4.9.3", "hydra": "1.3.2"}
    assert machine.folder.joinpath("specs/demo.toml").read_text() == spec
    assert "inert = true }" in machine.lock_path().read_text() and machine.envspec("check").status == 0
    antlr = next(pin for pin in machine.lock().targets[0].pins if pin.name == "antlr")
    assert antlr.is_inert and {one.name for one in antlr.built_with or ()} == {"setuptools", "wheel"}
    # what stays from the old lock was told when it was chosen
    index.add(wheel("more", "1.0"))
    assert machine.envspec("lock", machine.spec(cpu("hydra", "more"))).err == ""
    # what the spec allows needs no judgement
    machine.locked("--upgrade", spec=cpu("hydra", extra="allow-source = ['antlr']"))
    assert "inert" not in machine.lock_path().read_text()


@pytest.mark.slow
def test_allow_needed_adds_to_what_is_there(machine: Machine, index: Index) -> None:
    index.add(sdist("lib", "2.0"), sdist("other", "0.1"))
    machine.spec(cpu("lib", "other", extra="allow-source = [\n    'other',  # looked through\n]"))
    machine.locked("--allow-needed")
    text = (machine.folder / "specs" / "demo.toml").read_text()
    assert "'other',  # looked through" in text
    assert tomli.loads(text)["pip"]["allow-source"] == ["other", "lib"]


def test_a_release_whose_wheels_do_not_fit_is_passed_over_and_told(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", tag="cp312-cp312-manylinux_2_39_x86_64"), sdist("lib", "2.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib")), status=0)
    assert ran.err.splitlines() == [
        "note: cpu: lib 1.0 is locked, not 2.0: newer ones want glibc 2.39, and the target has 2.28",
        'hint: if the machines have it, set glibc = "2.39" in the target',
    ]
    # what stays from the old lock was told when it was chosen
    index.add(wheel("more", "1.0"))
    assert machine.envspec("lock", machine.spec(cpu("lib", "more"))).err == ""


def test_the_python_that_its_wheels_are_for_is_a_way(machine: Machine, index: Index) -> None:
    """As tokenizers 0.13.3, which transformers 4.30 needs: for Python 3.12 it has a source alone, and wants Rust."""
    tags = (f"cp3{minor}-cp3{minor}-manylinux_2_17_x86_64" for minor in (9, 10, 11))
    index.add(
        sdist("tok", "0.13.3"), *(wheel("tok", "0.13.3", tag=tag) for tag in tags), wheel("app", "1.0", "tok<0.14")
    )
    ran = machine.envspec("lock", machine.spec(cpu("app", python="3.12")), status=1)
    assert "none of its wheels fits, but those for Python 3.11" in ran.error, ran.err
    assert ran.hint.startswith('hint: python = "3.11"; or if you trust the code'), ran.hint


def test_it_is_not_passed_over_where_its_wheels_are_for_other_platforms(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", tag="cp312-cp312-win_amd64"), sdist("lib", "2.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib")), status=1)
    assert "lib 2.0 (pure Python, none of its wheels fits)" in ran.error
    assert 'allow-source = ["lib"]' in ran.hint


@pytest.mark.slow
def test_nor_is_it_passed_over_for_an_older_source(machine: Machine, index: Index) -> None:
    """fairseq: 0.10.0 is a source alone, and 0.12.2 has wheels for older Pythons, and a source too."""
    index.add(sdist("lib", "1.0"), wheel("lib", "2.0", tag="cp38-cp38-manylinux_2_17_x86_64"), sdist("lib", "2.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib")), status=1)
    assert "lib 2.0 (pure Python, none of its wheels fits, but those for Python 3.8)" in ran.error
    assert machine.envspec("lock", "specs/demo.toml", "--allow-needed").status == 0
    assert machine.versions("cpu") == {"lib": "2.0"}
    # what the requirements leave out stays out
    assert "lib 1.0 (pure Python)" in machine.envspec("lock", machine.spec(cpu("lib<2"))).error


def test_a_pre_release_that_a_package_asks_for_is_taken(machine: Machine, index: Index) -> None:
    index.add(wheel("wandb", "1.0", "cw==0.0.1b1", "otel==0.47b0", "mixed==2.0b1"))
    index.add(wheel("cw", "0.0.1b1"), sdist("cw", "0.0.1b2"), wheel("cw", "0.0.1b2"))
    index.add(wheel("otel", "0.47b0"), sdist("otel", "0.48b0"), wheel("mixed", "1.0"), wheel("mixed", "2.0b1"))
    machine.locked(spec=cpu("wandb"))
    assert machine.versions("cpu") == {"cw": "0.0.1b1", "mixed": "2.0b1", "otel": "0.47b0", "wandb": "1.0"}


@pytest.mark.slow
def test_a_pre_release_that_nothing_asks_for_is_not(machine: Machine, index: Index) -> None:
    """uv takes it once it has ruled out all final releases of the range; here one of those is wrong for the other."""
    index.add(wheel("lib", "1.0", "num<2"), wheel("lib", "2.0rc1"), wheel("num", "1.0"), wheel("num", "2.0"))
    machine.locked(spec=cpu("lib>=1", "num"))
    assert machine.versions("cpu") == {"lib": "1.0", "num": "1.0"}
    ran = machine.envspec("lock", machine.spec(cpu("lib>=1", "num>=2")), "--upgrade")
    way = 'add to [pip]: constraints = ["lib>=0a0"]'
    assert ran.status == 1 and f"{way}: a pre-release of lib" in ran.hint
    machine.locked("--upgrade", spec=cpu("lib>=1", "num>=2", extra=way.removeprefix("add to [pip]: ")))
    assert machine.versions("cpu") == {"lib": "2.0rc1", "num": "2.0"}


@pytest.mark.slow
def test_a_named_index_has_stand_ins_too(machine: Machine, index: Index) -> None:
    with Index() as internal:
        internal.add(wheel("acme", "1.0"), sdist("acme", "2.0"))
        named = f"indexes = {{ mine = '{internal.url}' }}\nsources = {{ acme = 'mine' }}"
        ran = machine.envspec("lock", machine.spec(cpu("acme", extra=named)))
        assert ran.status == 1 and f"{NO_WHEEL}acme 2.0" in ran.error
        (target,) = machine.locked(spec=cpu("acme", extra=f"{named}\nallow-source = ['acme']"))
        assert [(pin.index, pin.artifact.file) for pin in target.pins if pin.artifact] == [("mine", "acme-2.0.tar.gz")]


def test_only_sources_that_uv_asks_about_are_fetched(machine: Machine, index: Index) -> None:
    index.add(sdist("lib", "1.0"), sdist("lib", "2.0"), sdist("never", "1.0"))
    machine.envspec("lock", machine.spec(cpu("lib")))
    assert index.paths("^/files/") == ["/files/lib-2.0.tar.gz"]


def test_offline_gives_the_same_answer(machine: Machine, hydra: str, index: Index) -> None:
    told = machine.envspec("lock", machine.spec(cpu("hydra")))
    index.asked.clear()
    again = machine.envspec("lock", "specs/demo.toml", "--offline")
    assert (again.status, again.err) == (1, told.err) and index.asked == []


def test_a_release_whose_wheels_want_a_newer_glibc_names_it(machine: Machine, index: Index) -> None:
    """llguidance 1.7.6, which vllm requires, has wheels for glibc 2.31."""
    index.add(wheel("lib", "2.0", tag="cp312-cp312-manylinux_2_31_x86_64"), sdist("lib", "2.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib==2.0")), status=1)
    assert "its wheels are for glibc 2.31 and later" in ran.error
    assert 'if the machines have it, set glibc = "2.31" in the target; or if you trust the code' in ran.hint


def test_an_old_source_isnt_asked_for_before_the_glibc_of_the_newer_wheel(machine: Machine, index: Index) -> None:
    """As vLLM on aarch64 with glibc 2.28: the source of 0.6.5, of 2024, or 0.33.0 with glibc 2.31."""
    index.add(sdist("server", "1.0"), wheel("server", "2.0", "native"))
    index.add(wheel("native", "1.0", tag="cp312-cp312-manylinux_2_34_x86_64"))
    ran = machine.envspec("lock", machine.spec(cpu("server")), status=1)
    assert f"{NO_WHEEL}server 1.0 (pure Python)" in ran.error
    assert ran.hint.startswith('hint: if the machines have it, set glibc = "2.34" in the target'), ran.hint
    machine.locked(spec=cpu("server", targets="[targets.cpu]\nplatform = 'linux-64'\nglibc = '2.34'\n"))
    assert machine.versions("cpu")["server"] == "2.0"


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("asked", ["lib==2.0", "app"])
def test_a_release_whose_wheels_do_not_fit_is_told_where_nothing_else_would_do(
    machine: Machine, index: Index, asked: str
) -> None:
    """langdetect 1.0.9 has a wheel for Python 2, and a source that every Python builds."""
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", tag="py2-none-any"), sdist("lib", "2.0"))
    index.add(wheel("app", "1.0", "lib==2.0"))
    ran = machine.envspec("lock", machine.spec(cpu(asked)), status=1)
    path = "app → lib, " if asked == "app" else ""
    assert f"needs a package from source: lib 2.0 ({path}pure Python, none of its wheels fits)" in ran.error
    assert 'allow-source = ["lib"]' in ran.hint
    machine.locked(spec=cpu(asked, extra="allow-source = ['lib']"))
    assert machine.versions("cpu")["lib"] == "2.0"


@pytest.mark.slow
def test_wheels_that_fit_nowhere_without_a_source_are_told_as_such(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", tag="py2-none-any"))
    ran = machine.envspec("lock", machine.spec(cpu("lib==2.0")))
    assert ran.status == 1 and "lib==2.0 has no wheel for this target's Python" in ran.error


@pytest.mark.slow
def test_a_conflict_for_want_of_wheels_names_the_glibc_and_the_python_that_would_do(
    machine: Machine, index: Index
) -> None:
    """pymeshlab has wheels for Python 3.11 up to 2022.2, and for glibc 2.31 after it; triton 2.1.0 none for 3.12."""
    index.add(wheel("lib", "1.0", tag="cp311-cp311-manylinux1_x86_64"))
    index.add(wheel("lib", "2.0", tag="cp312-cp312-manylinux_2_31_x86_64"))
    told = 'if the machines have it, set glibc = "2.31" in the target: lib 2.0 has wheels for glibc 2.31 and later'
    other = "lib 1.0 has wheels for Python 3.11 alone"
    for asked, ways in (("lib", ['python = "3.11"', told, other]), ("lib==1.0", ['python = "3.11"', other])):
        assert machine.envspec("lock", machine.spec(cpu(asked)), status=1).hint == f"hint: {'; or '.join(ways)}"


@pytest.mark.slow
def test_a_glibc_that_is_too_old_is_told_with_the_one_that_would_do(machine: Machine, index: Index) -> None:
    for glibc in ("2_35_x86_64", "2_38_x86_64", "2_17_aarch64"):
        index.add(wheel("lib", "1.0", tag=f"cp312-cp312-manylinux_{glibc}"))
    ran = machine.envspec("lock", machine.spec(cpu("lib")), status=1)
    told = 'if the machines have it, set glibc = "2.35" in the target: lib 1.0 has wheels for glibc 2.35 and later'
    assert ran.hint == f"hint: {told}"
    machine.locked(spec=cpu("lib", targets="[targets.cpu]\nplatform = 'linux-64'\nglibc = '2.35'\n"))
