"""The runners' command lines: golden, quoted whatever stands in them, and nothing done by saying them."""

import hashlib
import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from runner_samples import CARRIED, HOSTILE, HOSTILE_CASE, PLAIN, case
from smoke_golden import golden

from envspec.base.errors import InputError
from envspec.configuration.settings import load_settings
from envspec.prove.smoke.report.compare import load_references
from envspec.prove.smoke.run.apptainer import _AT_HOME, Apptainer
from envspec.prove.smoke.run.case import (
    CheckOptions,
    Command,
    Files,
    Folders,
    Local,
    Runner,
    SiteBuilds,
    dry,
    quote,
    variable,
)
from envspec.prove.smoke.run.docker import Docker, user_of
from envspec.prove.smoke.run.foreground import steps
from envspec.prove.smoke.run.process import FinishedProgram

ENVSPEC = ("python3", "-m", "envspec")
RUNNERS: dict[str, Runner] = {
    "local": Local(PLAIN, ENVSPEC),
    "local-offline": Local(PLAIN, ENVSPEC, offline=True),
    "docker": Docker(PLAIN, "docker", (1000, 1000)),
    "podman": Docker(PLAIN, "podman", (1000, 100)),
    "docker-image": Docker(PLAIN, "docker", (1000, 1000), image="site/train:1"),
    "apptainer": Apptainer(PLAIN),
    "apptainer-sif": Apptainer(PLAIN, "singularity", Path("/images/train.sif")),
}


def told(runner: Runner, options: CheckOptions = CheckOptions()) -> str:  # noqa: B008 - frozen
    before, checking = steps(runner, case("cu128-hopper", cuda="12.8"), options, PLAIN)
    return dry([*before, checking]) + "\n"


@pytest.mark.parametrize("name", RUNNERS)
def test_golden(name: str) -> None:
    text = told(RUNNERS[name])
    assert text == golden(f"runner-{name}.sh", text)


def test_options_go_to_the_check() -> None:
    options = CheckOptions("cuda", "llm", 7, True, ("static", "compile"), 90)
    wanted = "--device cuda --workload llm --steps 7 --quick --only static --only compile --timeout 90"
    assert wanted in told(RUNNERS["local"], options)


@pytest.mark.parametrize("name", ["local", "docker", "podman", "apptainer"])
def test_a_cpu_case_asks_for_no_gpu(name: str) -> None:
    _, checking = steps(RUNNERS[name], case(), CheckOptions(), PLAIN)
    assert not {"--gpus", "--nv", "--device=nvidia.com/gpu=all", "nvidia.com/gpu=all"} & set(checking.argv)


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_container_is_locked_down(name: str) -> None:
    _, checking = steps(RUNNERS[name], case(), CheckOptions(), PLAIN)
    line = " ".join(checking.argv)
    assert "--read-only" in line and "--network none" in line and "--cap-drop all" in line and "--user 1000:" in line
    assert "--privileged" not in line


def test_root_in_podman_asks_for_no_name_space() -> None:
    """podman refuses `--userns keep-id` to root."""
    _, checking = steps(Docker(PLAIN, "podman", (0, 0)), case(), CheckOptions(), PLAIN)
    assert "--userns" not in checking.argv and "--user 0:0" in " ".join(checking.argv)


@pytest.mark.parametrize(
    ("engine", "info", "user"),
    [
        ("docker", FinishedProgram(0, "[name=seccomp,profile=builtin name=rootless name=cgroupns]\n"), (0, 0)),
        ("docker", FinishedProgram(0, "[name=seccomp,profile=builtin name=cgroupns]\n"), (1000, 100)),
        ("docker", FinishedProgram(1, "Cannot connect to the Docker daemon at rootless.sock"), (1000, 100)),
        ("docker", FinishedProgram(127, "No such file or directory"), (1000, 100)),
        ("podman", FinishedProgram(0, "rootless"), (1000, 100)),
    ],
)
def test_who_a_container_runs_as(engine: str, info: FinishedProgram, user: tuple[int, int]) -> None:
    assert user_of(engine, (1000, 100), lambda argv: info) == user


@pytest.mark.parametrize(("program", "prefix"), [("apptainer", "APPTAINERENV_"), ("singularity", "SINGULARITYENV_")])
def test_what_apptainer_hands_on(tmp_path: Path, program: str, prefix: str) -> None:
    """Which GPUs, and how nodes reach each other: seen where the container starts, whatever is in the values."""
    stand_in = tmp_path / program
    stand_in.write_text(f'#!/bin/bash\nenv | grep ^{prefix} | sort\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    _, checking = steps(Apptainer(PLAIN, program, Path("/x.sif")), case("g", cuda="12.8"), CheckOptions(), PLAIN)
    given = {
        "CUDA_VISIBLE_DEVICES": "2,3", "NCCL_IB_HCA": "mlx5_0,mlx5_1", "GLOO_SOCKET_IFNAME": "it's $(id)",
        "UCX_TLS": "", "PYTHONPATH": "/elsewhere", "NVIDIA_VISIBLE_DEVICES": "0",
    }  # fmt: skip
    ran = subprocess.run(
        checking.argv, env={**given, "PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert [line.removeprefix(prefix) for line in lines[:4]] == [
        "CUDA_VISIBLE_DEVICES=2,3", "GLOO_SOCKET_IFNAME=it's $(id)", "NCCL_IB_HCA=mlx5_0,mlx5_1", "UCX_TLS=",
    ]  # fmt: skip
    words = list(checking.argv[checking.argv.index(program) + 1 :])
    bound = ["--bind", "/dev/infiniband"] if Path("/dev/infiniband").is_dir() else []
    assert lines[4:] == [words[0], *bound, *words[1:]]


def test_the_devices_of_infiniband_are_bound_where_they_are(tmp_path: Path) -> None:
    stand_in = tmp_path / "apptainer"
    stand_in.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    _, checking = steps(Apptainer(PLAIN, sif=Path("/x.sif")), case(), CheckOptions(), PLAIN)
    argv = [word.replace("/dev/infiniband", str(tmp_path)) for word in checking.argv]
    ran = subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[:4] == ["exec", "--bind", str(tmp_path), "--containall"]


def test_the_paths_and_libraries_of_the_sites_fabric_reach_the_container(tmp_path: Path) -> None:
    stand_in, config, there = tmp_path / "apptainer", tmp_path / "config.toml", tmp_path / "ofi"
    stand_in.write_text('#!/bin/bash\nprintf "%s\\n" "$APPTAINERENV_LD_LIBRARY_PATH" "$@"\n')
    stand_in.chmod(0o755)
    there.mkdir()
    config.write_text(f'[site.fabric]\nkind = "slingshot"\nlibraries = ["{there}"]\nbinds = ["/not/there"]\n')
    site = SiteBuilds(load_settings({"ENVSPEC_CONFIG": str(config)}))
    _, checking = steps(Apptainer(PLAIN, sif=Path("/x.sif"), site=site), case(), CheckOptions(), PLAIN)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ENVSPEC_LIBRARIES": str(there)}
    ran = subprocess.run(checking.argv, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"{there}\nexec\n--bind\n{there}\n") and "/not/there" not in ran.stdout


@pytest.mark.parametrize("make", [lambda f: Local(f, ENVSPEC), lambda f: Docker(f, "docker", (1, 1)), Apptainer])
def test_hostile_paths_stay_words(make: object) -> None:
    """What a shell reads from a dry run is, word for word, what is run without one."""
    before, checking = steps(make(HOSTILE), HOSTILE_CASE, CheckOptions(), HOSTILE)  # type: ignore[operator]
    for command in [*(step for step in before if isinstance(step, Command)), checking]:
        printed = subprocess.run(
            ["bash", "-c", f"printf '%s\\0' {' '.join(map(quote, command.argv))}"], capture_output=True, check=True
        )
        assert printed.stdout.decode().split("\0")[:-1] == list(command.argv)
        if command.cwd is None and not command.unless:
            assert shlex.split(command.shell) == list(command.argv)
    assert str(HOSTILE.carried_folder(HOSTILE_CASE)) in "\n".join(checking.argv).replace('""', '"')


def test_a_note_is_a_comment_whatever_it_says() -> None:
    text = dry([Command(("true",), "harmless\nrm -rf /"), Files(Path("/x"), (("a\nb", "text"),), "more\r\nnotes")])
    assert [line for line in text.splitlines() if line.startswith("rm")] == []


def test_a_shown_file_can_be_pasted(tmp_path: Path) -> None:
    script = "one\nEND\n$HOME `x` 'y'\n"
    text = dry([Files(tmp_path / "a new", (("fold er/it's a file", script),), "a script", shown=True)])
    subprocess.run(["bash", "-c", text], check=True)
    assert (tmp_path / "a new" / "fold er" / "it's a file").read_text() == script


@given(st.text(st.characters(exclude_characters="\0\x02\x03", exclude_categories=["Cs"])))
def test_any_word_is_quoted(word: str) -> None:
    assert shlex.split(quote(word)) == [word]


def test_a_variable_is_expanded_and_what_is_around_it_quoted() -> None:
    word = f'type=bind,"source={variable("out")}",destination=/x y'
    ran = subprocess.run(
        ["bash", "-c", f"out='a b$c'; printf %s {quote(word)}"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == 'type=bind,"source=a b$c",destination=/x y'


def test_docker_quotes_a_comma_in_a_mount() -> None:
    _, checking = steps(Docker(HOSTILE, "docker", (1, 1)), case(), CheckOptions(), HOSTILE)
    mounts = [word for word in checking.argv if word.startswith("type=bind,")]
    assert len(mounts) == 2
    import csv

    for mount in mounts:
        fields = next(csv.reader([mount]))
        assert fields[1].startswith("source=/re,sul\"ts/'; rm -rf $HOME #/")


def test_what_is_carried_is_written_beside_the_runs() -> None:
    before, _ = steps(RUNNERS["local"], case(), CheckOptions(), PLAIN)
    carried = before[0]
    assert isinstance(carried, Files)
    assert dict(carried.texts) == CARRIED and carried.folder == Path("/results/carried/demo-cpu")


def test_references_of_a_target_come_over_the_common_ones(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        '[references]\n"a.b" = { value = 1, low = -0.1 }\n"c.d" = { value = 2 }\n'
        '[targets.cu128.references]\n"a.b" = { value = 9, unit = "GB/s" }\n'
    )
    found = load_references(path)
    assert found.of("cpu")["a.b"].value == 1 and found.of("cu128")["a.b"].unit == "GB/s"
    assert found.of("cu128")["c.d"].value == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[reference]\n", r":1:2: unknown key 'reference' at the top level"),
        ("[references]\na = { low = -0.1 }\n", r":2:5: \[references.a\] lacks the key 'value'"),
        ("[references]\na = { value = 'x' }\n", r":2:15: references.a.value must be a number, not a string: 'x'"),
        ("[references]\na = { value = nan }\n", r":2:15: references.a.value: nan is not finite"),
        ("[references]\na = { value = 1, low = 0.1 }\n", r":2:24: references.a.low: 0.1 is out of range"),
        ("[references]\na.b = { value = 1 }\n", r":2:1: \[references.a\] lacks the key 'value'"),
        ("[targets.x]\nfoo = 1\n", r":2:1: unknown key 'foo' in \[targets.x\]"),
        ("references = 3\n", r":1:14: references must be a table, not a whole number: 3"),
        ("[references\n", r":1:12: not TOML: expected '\]' at the end of a table declaration"),
    ],
)
def test_wrong_references_are_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        load_references(path)


def test_options_are_plain_words() -> None:
    assert json.dumps(CheckOptions().arguments()) == '["--device", "auto"]'


@pytest.mark.parametrize("changed", [False, True])
def test_the_sif_below_an_image_is_the_locked_one(tmp_path: Path, changed: bool) -> None:
    sif = tmp_path / "centre's, own.sif"
    sif.write_bytes(b"a SIF")
    digest = hashlib.sha256(b"another" if changed else b"a SIF").hexdigest()
    own = replace(case(), python="/opt/conda/bin/python3.12", base=(str(sif), f"sha256:{digest}"))
    folders = Folders(tmp_path / "cache", tmp_path / "results")
    before, checking = steps(Apptainer(folders), own, CheckOptions(), folders)
    (folders.recipe(own) / own.target).mkdir(parents=True)
    test, link = (one.argv for one in before if isinstance(one, Command) and one.argv[0] in ("sh", "ln"))
    assert subprocess.run(test, capture_output=True).returncode == int(changed)
    subprocess.run(link, check=True)
    assert (folders.recipe(own) / own.target / "base.sif").read_bytes() == b"a SIF"
    assert checking.argv[checking.argv.index(_AT_HOME) + 2] == "/opt/conda/bin/python3.12"
    _, checking = steps(Docker(folders, "podman", (0, 0)), own, CheckOptions(), folders)
    assert "--entrypoint /opt/conda/bin/python3.12" in " ".join(checking.argv)
