"""The table of conda-forge's builds, from recipes of our own in the form of conda-forge's."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from envspec.facts import tables
from tools.refresh import __main__ as program
from tools.refresh.conda_table import refreshed_builds
from tools.refresh.published import UpstreamChanged, rows_of

FILES = Path(__file__).parent / "conda_recipes"


DATA = Path(tables.__file__).parent / "data"
COMMIT = "0123456789abcdef"

TABLE = (FILES / "table.toml").read_text(encoding="utf-8")

SHELL = (FILES / "build.sh").read_text(encoding="utf-8")

BATCH = (FILES / "bld.bat").read_text(encoding="utf-8")


def build(platform: str, cuda: str | None, **more: str) -> str:
    values = {
        "target_platform": platform,
        "is_rc": "False",
        **({"cuda_compiler_version": cuda} if cuda else {}),
        **more,
    }
    return "".join(f"{key}:\n- '{value}'\n" for key, value in values.items())


def recipe(*builds: str, release: str = "2.9.0", shell: str = SHELL, batch: str = BATCH) -> dict[str, str]:
    scripts = {"recipe/build.sh": shell, "recipe/bld.bat": batch}
    meta = f'{{% set version = "{release}" %}}\n{{% set build = 2 %}}\n'
    return (
        {f".ci_support/{number}.yaml": one for number, one in enumerate(builds)} | scripts | {"recipe/meta.yaml": meta}
    )


def test_each_build_has_its_own_list() -> None:
    builds = [
        build("linux-64", "12.9", c_stdlib_version="2.17"),
        build("linux-64", "12.9", c_stdlib_version="2.17", blas_impl="mkl"),
        build("linux-64", "13.0", c_stdlib_version="2.28"),
        build("linux-64", "13.0", c_stdlib_version="2.28", is_rc="True"),
        build("linux-64", "None", c_stdlib_version="2.17"),
        build("linux-aarch64", "12.9", c_stdlib_version="2.34", arm_variant_type="tegra"),
        build("linux-aarch64", "13.0", c_stdlib_version="2.28", arm_variant_type="sbsa"),
        build("osx-arm64", None, c_stdlib_version="11.0"),
        build("osx-64", None),
        build("win-64", "12.8"),
        build("win-64", "13.0"),
    ]
    text = refreshed_builds(TABLE, recipe(*builds), COMMIT)
    assert [line for line in text.splitlines() if line not in TABLE.splitlines()] == [
        'sources.feedstock-01234567 = "conda-forge/pytorch-cpu-feedstock@0123456789abcdef: .ci_support and'
        ' TORCH_CUDA_ARCH_LIST of its scripts, read by tools.refresh"',
        *(
            f'  {{ pytorch = "2.9.0", platform = "{said}source = "feedstock-01234567" }},'
            for said in (
                'linux-64", cuda = "12.9", sm = "7.0 9.0", ptx = "9.0", ',
                'linux-64", cuda = "13.0", sm = "9.0", ptx = "9.0", glibc = "2.28", ',
                'linux-64", ',
                'linux-aarch64", cuda = "12.9", arm-variant = "tegra", sm = "8.7", ptx = "8.7", glibc = "2.34", ',
                'linux-aarch64", cuda = "13.0", sm = "8.7 9.0", ptx = "9.0", glibc = "2.28", ',
                'osx-arm64", ',
                'win-64", cuda = "12.8", sm = "7.0 9.0", ptx = "9.0", ',
                'win-64", cuda = "13.0", sm = "9.0 12.0", ptx = "12.0", ',
            )
        ),
    ]
    assert refreshed_builds(text, recipe(*builds), COMMIT) == text


LINUX = build("linux-64", "12.9")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (recipe(LINUX, release="2.9.0-rc2"), "names no final release: 2.9.0-rc2"),
        (
            recipe(build("linux-64", "12.6")),
            "no TORCH_CUDA_ARCH_LIST that can be read for .*cuda_compiler_version 12.6",
        ),
        (recipe(LINUX, shell=SHELL.replace("7.0;9.0+PTX", "$ARCHS")), "no TORCH_CUDA_ARCH_LIST that can be read"),
        (recipe(LINUX, shell=SHELL.replace('"${arm_variant_type}" ==', "-n")), "condition of an unknown form"),
        (recipe(LINUX, shell=f"if (( CUDA > 12 )); then\n{SHELL}fi\n"), "condition of an unknown form"),
        (recipe(build("win-64", "12.8"), batch=BATCH.replace("if not ", "if /i not ")), "condition of an unknown form"),
        (recipe(build("linux-64", "99.0"), shell=SHELL.replace("13.0)", "99.0)")), "toolkits.toml doesn't know it"),
        (recipe(build("linux-aarch64", "12.9", arm_variant_type="thor")), "no words for arm_variant_type thor"),
        (recipe("- a\n- list\n"), "0.yaml isn't a build's variables"),
        (
            recipe(build("linux-64", "12.9"), release="2.8.0", shell=SHELL.replace("7.0;", "7.5;")),
            "was built again with",
        ),
    ],
    ids=["rc", "no list", "a variable", "if -n", "arithmetic", "batch", "new CUDA", "new variant", "yaml", "rebuilt"],
)
def test_what_would_make_a_wrong_row_stops_it(files: dict[str, str], why: str) -> None:
    with pytest.raises(UpstreamChanged, match=why):
        refreshed_builds(TABLE, files, COMMIT)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in recipe(LINUX, build("linux-64", "None")).items():
        (tmp_path / "recipe-folder" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "recipe-folder" / path).write_text(text)
    table = tmp_path / "conda_builds.toml"
    table.write_text(TABLE)
    monkeypatch.setattr(program, "CONDA_TABLE", table)
    monkeypatch.setattr(program, "TABLE", tmp_path / "torch.toml")
    words = ["conda", str(tmp_path / "recipe-folder"), "--revision", COMMIT]
    shown = CliRunner().invoke(program.command, words, standalone_mode=False)
    assert (shown.return_value, table.read_text()) == (1, TABLE)
    assert CliRunner().invoke(program.command, [*words, "--write"], standalone_mode=False).return_value == 0
    assert [row["pytorch"] for row in rows_of(table.read_text(), "builds")] == ["2.8.0"] * 2 + ["2.9.0"] * 2
    assert CliRunner().invoke(program.command, words, standalone_mode=False).return_value == 0
