"""Which builds are for CUDA, and which of a solution are the wrong ones: pure rules on builds."""

import pytest

from envspec.packages.conda import BuildRecord, foreign_builds
from envspec.resolve.conda.solve import (
    base_constraints,
    constraint,
    describe_cuda_builds,
    exempt_packages,
    to_look_up,
    wrong_variants,
)


def build(
    name: str, version: str, string: str, *depends: str, number: int = 0, subdir: str = "linux-64"
) -> BuildRecord:
    return BuildRecord(name, version, string, number, subdir, depends)


CPU = build("pytorch", "2.7.1", "cpu_mkl_py312_h8abce0f_103", number=103)
CU126 = build("pytorch", "2.7.1", "cuda126_mkl_py312_h30b5a27_300", "__cuda", "cuda-version >=12.6,<13", number=300)
CU129 = build("pytorch", "2.9.1", "cuda129_mkl_py312_h1_302", "cuda-version >=12.9,<13", "python_abi 3.12.* *_cp312")


@pytest.mark.parametrize(
    ("given", "cuda", "for_cuda", "for_cpu"),
    [
        (CPU, None, False, True),
        (CU126, "12.6", True, False),
        (build("x", "1", "cuda_py312_h1_1", "pytorch * cuda*"), None, True, False),
        (build("x", "1", "h1_0", "cuda-version >=12.9,<13"), "12.9", True, False),
        (build("x", "1", "h1_0", "cudatoolkit >=11.8,<12"), "11.8", True, False),
        # the driver's floor, which every newer CUDA answers too
        (build("libarrow", "20", "h1_8_cuda", "__cuda >=11.8"), None, True, False),
        (build("jaxlib", "0.6", "cuda126py312hbc_200"), "12.6", True, False),
        (build("x", "1", "py312_h1_0"), None, False, False),
    ],
)
def test_what_a_build_is_for(given: BuildRecord, cuda: str | None, for_cuda: bool, for_cpu: bool) -> None:
    assert (given.cuda, given.for_cuda, given.for_cpu) == (cuda, for_cuda, for_cpu)


@pytest.mark.parametrize(
    ("cuda", "admitted"), [("12.6", True), ("12.8", True), ("12.4", False), ("13.0", False), ("11.8", False)]
)
def test_a_build_runs_with_its_own_minor_or_a_higher_one(cuda: str, admitted: bool) -> None:
    assert CU126.admits(cuda) is admitted


def test_a_cpu_build_is_wrong_where_a_cuda_build_exists() -> None:
    assert wrong_variants([CPU], [CPU, CU126], "12.6") == [CPU]
    assert wrong_variants([CPU], [CPU], "12.6") == []
    assert wrong_variants([CU126], [CPU, CU126], "12.6") == []


def test_a_cpu_build_that_does_not_say_so_is_found_by_its_siblings() -> None:
    plain = build("x", "2.0", "h1_0")
    assert wrong_variants([plain], [plain, build("x", "2.0", "h2_0", "__cuda")], "12.6") == [plain]


def test_a_package_that_dropped_cuda_is_no_cpu_build() -> None:
    plain = build("ucx", "2.0", "h1_1", number=1)
    assert wrong_variants([plain], [plain, build("ucx", "1.9", "h2_0", "__cuda")], "12.6") == []
    older = build("ucx", "2.0", "h2_0", "__cuda", number=0)
    assert wrong_variants([plain], [plain, older], "12.6") == []


def test_a_cuda_build_is_wrong_in_a_cpu_target() -> None:
    assert wrong_variants([CU126], [CPU, CU126], None) == [CU126]
    assert wrong_variants([CPU], [CPU, CU126], None) == []


def test_only_what_may_be_wrong_is_looked_up() -> None:
    plain, noarch = build("x", "2.0", "h1_0"), build("y", "1", "pyh_0", subdir="noarch")
    assert to_look_up([CPU, plain, noarch], "12.6", ()) == {"pytorch": "pytorch", "x": "x ==2.0"}
    assert to_look_up([CPU, plain], "12.6", {"pytorch"}) == {"x": "x ==2.0"}
    assert to_look_up([CPU, CU126, plain], None, ()) == {"pytorch": "pytorch"}


def test_a_chosen_cpu_build_excuses_what_it_brings() -> None:
    solution = [
        build("pyarrow-core", "20", "py312_0_cpu", "libarrow 20.0.* *cpu", "python"),
        build("libarrow", "20", "h_8_cpu", "aws-sdk"),
        build("libparquet", "20", "h_8_cpu", "libarrow 20 h_8_cpu"),
        build("aws-sdk", "1", "h_0"),
        CPU,
    ]
    assert exempt_packages(solution, ["pyarrow-core"]) == {"pyarrow-core", "libarrow", "libparquet"}


def test_constraints_are_by_the_mark_where_it_tells() -> None:
    assert constraint("pytorch", [CPU, CU126, CU129], "12.6") == "pytorch * *cuda*"
    assert constraint("pytorch", [CPU, CU126], None) == "pytorch * *cpu*"


def test_constraints_are_by_build_where_no_mark_tells() -> None:
    one, two = build("x", "2.0", "h1_0"), build("x", "2.0", "h2.x_0", "__cuda")
    assert constraint("x", [one, two], "12.6") == r'x[build="^(h2\.x_0)$"]'


def test_base_constraints() -> None:
    assert base_constraints("12.6", ()) == ("cuda-version 12.6.*",)
    assert base_constraints("12.8.1", ()) == ("cuda-version 12.8.*",)
    assert base_constraints(None, ("ffmpeg",)) == ("cuda-version <0", "cudatoolkit <0")
    assert base_constraints(None, ("cuda-nvcc",)) == ()


def test_another_major_is_foreign() -> None:
    assert foreign_builds([CU126, CPU], "11.8") == [CU126]
    assert foreign_builds([CU126, CPU], "12.9") == []


def test_what_exists_is_told_nearest_first() -> None:
    cu130 = build("pytorch", "2.12.1", "cuda130_mkl_h_300")
    told = describe_cuda_builds("pytorch", [CPU, CU126, CU129, cu130], "12.8", "3.12", ("2.9.1",))
    assert told == (
        "existing CUDA builds of pytorch for Python 3.12: 2.9.1 for CUDA 12.9; pytorch 2.7.1 runs with CUDA 12.8"
    )
    assert describe_cuda_builds("pytorch", [CPU], "12.8", "3.12") is None
    assert describe_cuda_builds("pytorch", [CU129], "12.8", "3.13") is None
