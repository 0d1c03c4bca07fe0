"""Findings that a spec takes knowingly, through every command that a finding would stop."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.base.codes import meanings
from envspec.base.errors import SpecError
from envspec.rules.case import refuse_unacceptable

KERNELS = wheel("acme-kernels", "4.2.0", "acme-kernels-cu12")
ACCEPT = 'accept = { cuda-major-mixed = "acme-kernels loads the libraries of its own CUDA" }'
TARGET = "[targets.t]\nplatform = 'linux-64'\ncuda = '13.0'\ngpus = ['H100']\n"


def spec(terms: str = "", target: str = "", name: str = "acme-kernels") -> str:
    return cpu(name, extra=terms, targets=TARGET + target)


@pytest.fixture
def libraries(index: Index) -> Index:
    return index.add(KERNELS, wheel("acme-kernels-cu12", "4.2.0"), wheel("plain", "1.0"))


@pytest.mark.slow
@pytest.mark.e2e
def test_a_package_of_another_cuda_is_refused_with_the_way_to_accept_it(machine: Machine, libraries: Index) -> None:
    ran = machine.envspec("lock", machine.spec(spec()))
    assert ran.status == 1 and "belongs to CUDA 12" in ran.error
    assert 'accept = { cuda-major-mixed = { acme-kernels-cu12 = "why" } }' in ran.err


@pytest.mark.e2e
@pytest.mark.parametrize("where", ["spec", "target"])
def test_an_accepted_finding_stops_nothing_and_is_told(machine: Machine, libraries: Index, where: str) -> None:
    machine.spec(spec(ACCEPT) if where == "spec" else spec(target=f"[targets.t.pip]\n{ACCEPT}"))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    told = "accepted [cuda-major-mixed]: acme-kernels loads the libraries of its own CUDA"
    assert any(line.startswith("note: ") and told in line for line in ran.err.splitlines())
    assert machine.envspec("check", "specs/demo.toml").status == 0
    machine.envspec("export", "specs/demo.toml", "--format", "dockerfile", "-o", "out", status=0)
    text = machine.lock_path().read_text(encoding="utf-8")
    assert '{ code = "cuda-major-mixed", reason = "acme-kernels loads the libraries of its own CUDA" }' in text


@pytest.mark.slow
@pytest.mark.e2e
def test_a_finding_is_accepted_of_one_package(machine: Machine, libraries: Index) -> None:
    """Of another one it stays an error, and the lock, its judge and `diff` know of which."""
    libraries.add(wheel("other-cu12", "1.0"))
    own = 'accept = { cuda-major-mixed = { Acme_Kernels-CU12 = "it loads its own" } }'
    ran = machine.envspec("lock", machine.spec(spec(own)))
    assert ran.status == 0 and "accepted [cuda-major-mixed]: it loads its own" in ran.err, ran.err
    assert (
        '{ code = "cuda-major-mixed:acme-kernels-cu12", reason = "it loads its own" }'
        in machine.lock_path().read_text()
    )
    assert machine.envspec("check", "specs/demo.toml").status == 0
    ran = machine.envspec("lock", machine.spec(spec(own).replace("'acme-kernels'", "'acme-kernels', 'other-cu12'")))
    assert ran.status == 1 and "other-cu12 1.0 belongs to CUDA 12" in ran.error
    ran = machine.envspec("lock", machine.spec(spec(own, name="plain")))
    assert ran.status == 0 and "[pip] accepts cuda-major-mixed of acme-kernels-cu12, which no target has" in ran.err


OLD, NEW, ASKED = "acme-libs-cu12", "acme-libs-cu13", 'acme-libs-cu13; extra == "cu13"'


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("cuda", "requires", "files", "said"),
    [
        ("13.0", [OLD, ASKED], "lib/libacme.so", None),
        ("13.0", [OLD, NEW], "{}/libacme.so", None),
        ("12.8", [OLD, NEW], "{}/libacme.so", None),
        ("13.0", [OLD, NEW], "acme/asio.hpp", None),
        ("13.0", [OLD, NEW], "lib/libacme.so.4.8", "it and acme-libs-cu13 both install lib/libacme.so.4.8"),
        ("13.0", [OLD, NEW], "lib/libacme.so", "it and acme-libs-cu13 both install lib/libacme.so"),
        (
            "13.0",
            ["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"],
            "{}/libacme.so",
            "nvidia-cudnn-cu12 4.8.1 belongs to CUDA",
        ),
        ("13.0", [OLD], "{}/libacme.so", "acme-libs-cu12 4.8.1 belongs to CUDA 12"),
        ("13.0", ['acme-libs-cu12; extra == "cu12"', ASKED], "lib/libacme.so", "acme-libs-cu12 4.8.1 belongs to CUDA"),
        ("12.8", ["nvidia-cutlass-dsl-libs-cu13"], "{}/libacme.so", "belongs to CUDA 13"),
    ],
)
def test_a_package_s_own_libraries_for_two_cudas(
    machine: Machine, index: Index, cuda: str, requires: list[str], files: str, said: str | None
) -> None:
    """Its METADATA and their paths decide, not their names."""
    names = [line.partition(";")[0] for line in requires]
    index.add(wheel("dsl", "4.8.1", *requires, extras=["cu12", "cu13"]))
    index.add(*(wheel(name, "4.8.1", files={files.format(name[-4:]): b""}) for name in names))
    ran = machine.envspec("lock", machine.spec(cpu("dsl[cu12]", targets=TARGET.replace("13.0", cuda))))
    assert said in ran.error if said else ran.status == 0, ran.err
    if said is None:
        assert machine.envspec("check", "specs/demo.toml").status == 0
        machine.envspec("verify", "specs/demo.toml", status=0)


@pytest.mark.slow
@pytest.mark.e2e
def test_two_packages_don_t_make_two_cudas_right(machine: Machine, index: Index) -> None:
    index.add(wheel("dsl", "1.0", OLD), wheel("other", "1.0", NEW), wheel(OLD, "1.0"), wheel(NEW, "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("dsl", "other", targets=TARGET)))
    assert ran.status == 1 and "acme-libs-cu12 1.0 belongs to CUDA 12" in ran.error, ran


@pytest.mark.e2e
def test_a_lock_without_it_is_unsound(machine: Machine, libraries: Index) -> None:
    machine.locked(spec=spec(ACCEPT))
    machine.spec(spec())
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "the accepted finding cuda-major-mixed was removed" in ran.out
    assert machine.envspec("export", "specs/demo.toml", "--format", "dockerfile", "-o", "out").status == 1


@pytest.mark.e2e
def test_what_is_accepted_and_does_not_occur_is_told(machine: Machine, libraries: Index) -> None:
    ran = machine.envspec("lock", machine.spec(spec(ACCEPT, name="plain")), status=0)
    assert "[pip] accepts cuda-major-mixed, which no target has" in ran.err


@pytest.mark.e2e
def test_torch_of_another_cuda_is_not_covered(machine: Machine, libraries: Index) -> None:
    """The CPU build, or that of another CUDA, stays refused whatever is accepted."""
    with Index() as own:
        own.add(wheel("torch", "2.9.1+cu126"))
        named = f"indexes = {{ own = '{own.url}' }}\nsources = {{ torch = 'own' }}\n{ACCEPT}"
        ran = machine.envspec("lock", machine.spec(spec(named, name="torch")))
        assert ran.status == 1 and "cu126" in ran.err


def test_a_row_decides_whether_a_finding_can_be_accepted() -> None:
    for one in meanings().values():
        if one.refused:
            with pytest.raises(SpecError, match="can't be accepted") as refused:
                refuse_unacceptable(one.code, None)
            assert refused.value.hint == one.do
        else:
            refuse_unacceptable(one.code, None)
    assert all(meanings()[code].refused for code in ("cpu-build", "no-build", "wrong-hash", "requirement-unmet"))
    with pytest.raises(SpecError) as caught:
        refuse_unacceptable("cuda-mayor-mixed", None)
    assert caught.value.hint == 'did you mean "cuda-major-mixed"?'


@pytest.mark.e2e
def test_an_unknown_code_names_its_place(machine: Machine, libraries: Index) -> None:
    ran = machine.envspec("lock", machine.spec(spec('accept = { cuda-mixed-major = "x" }')))
    assert ran.status == 2 and ran.error.startswith("error: specs/demo.toml:5:")


@pytest.mark.e2e
def test_an_accepted_risk_of_a_change_is_diffs_and_never_unused(machine: Machine, libraries: Index) -> None:
    ran = machine.envspec("lock", machine.spec(spec('accept = { major-jump = { plain = "tried" } }', name="plain")))
    assert ran.status == 0 and "accepts major-jump" not in ran.err, ran.err
    assert machine.envspec("check", "specs/demo.toml").status == 0
