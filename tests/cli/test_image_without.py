"""What a base lacks: refused by name, or left out knowingly and skipped by the smoke check; and services."""

import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from envspec_check.interface import CHECKS, Context
from envspec_check.lock import read_target
from envspec_check.report import Progress
from envspec_check.session import Session
from msgspec.structs import replace
from support.base_image import PACKAGES, carried_folder, documents, members, system, text, write_base
from support.check_session import StandInRunner
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, pip_pin, write_lock
from support.machine import Machine, Ran
from support.packages import wheel

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")]

RDMA = {"ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1"}


def with_torch(machine: Machine) -> None:
    """The lock of torch for CPUs, whose wheel lies in a folder that pip looks into."""
    torch = wheel("torch", "2.9.0+cpu", tag="cp39-abi3-linux_x86_64")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(torch.content)
    machine.variables["PIP_FIND_LINKS"] = str(folder)
    write_lock(machine, [replace(pip_pin(torch), index="pytorch/cpu")])


def lacking(machine: Machine, packages: dict[str, str], *arguments: str) -> Ran:
    write_base(machine.folder / "base", system(PYTHON, packages))
    return machine.envspec("image", SPEC, "--base", "./base", "-o", "out", *arguments)


def test_what_a_base_lacks_is_refused_by_name(machine: Machine, index: Index) -> None:
    with_torch(machine)
    ran = lacking(machine, {name: one for name, one in PACKAGES.items() if name not in ("g++", "tini")})
    assert ran.status == 2 and "lacks g++, tini" in ran.error
    assert "--base-recipe" in ran.hint and "--without compile" in ran.hint
    ran = lacking(machine, PACKAGES | {"libc6": "2.5-1"})
    assert ran.status == 2 and "glibc 2.5" in ran.error
    ran = lacking(machine, {})
    assert ran.status == 2


def test_a_bundle_is_told_of_no_option_that_it_lacks(machine: Machine, index: Index) -> None:
    with_torch(machine)
    write_base(machine.folder / "base", system(PYTHON, {name: one for name, one in PACKAGES.items() if name != "g++"}))
    ran = machine.envspec("bundle", SPEC, "-o", "demo.tar", "--with-base", "--base", "./base")
    assert ran.status == 2 and "lacks g++, and" in ran.error
    assert "--base-recipe" in ran.hint and "--without" not in ran.hint


def for_gpus(machine: Machine, index: Index) -> None:
    """The lock of a target for GPUs, without torch."""
    index.add(wheel("lib", "1.0"))
    machine.locked(
        spec=f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['lib']\n[image]\npython = 'base'\n"
        f"[targets.here]\nplatform = '{SUBDIR}'\ncuda = '12.8'\ngpus = ['H100']\n"
    )


def verdicts(target: Path, *groups: str) -> tuple[dict[str, str | None], str]:
    """What the image's smoke check skips, each with its reason, and the verdict: by the check itself, whose runner
    starts no process."""
    config = read_target(str(target))
    rows = config["lock"]["pip"]
    if all(row["name"] != "torch" for row in rows):
        rows.append({**rows[0], "name": "torch", "version": "2.9.0"})  # collectives are torch's
    ctx = Context(config, "auto", "basic", 5, True, 0, 60.0, Path(), "check")
    made = Session(ctx, CHECKS, groups, StandInRunner(2 if ctx.target.get("cuda") else 0))  # type: ignore[arg-type]
    made.run(Progress([], io.StringIO()))
    report = made.report()
    skipped = {one["name"]: one["reason"] for one in report["checks"] if one["status"] == "skip"}
    return skipped, report["summary"]["verdict"]


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("lacks", "feature", "group", "skips", "runs"),
    [
        ({"g++"}, "compile", "compile", "compile.eager", "training.fp32"),
        (RDMA, "fabric", "collectives", "collectives.fabric", "collectives.nccl"),
    ],
)
def test_what_is_left_out_is_skipped_by_name_in_the_image(
    lacks: set[str], feature: str, group: str, skips: str, runs: str, machine: Machine, index: Index, tmp_path: Path
) -> None:
    """Refused without the option. With it, the image says so, and its own smoke check skips what needs that alone."""
    with_torch(machine) if feature == "compile" else for_gpus(machine, index)
    there = dict.fromkeys(RDMA, "1") | PACKAGES
    short = {name: one for name, one in there.items() if name not in lacks}
    for others in ((), ("--without", "ssh,code-server")):
        ran = lacking(machine, short, *others)
        assert ran.status == 2 and f" lacks {', '.join(sorted(lacks))}, and " in ran.error, ran.err
        assert f"`--without {feature}` makes" in ran.hint and not (machine.folder / "out").exists()
    command = re.findall("`(envspec .+? --base-recipe)`", ran.hint)[0].split()
    assert " ".join(sorted(lacks)) in machine.envspec(*command[1:]).out
    ran = lacking(machine, short, "--without", "compile,fabric")
    assert ran.status == 0, ran.err
    layout = machine.folder / "out"
    assert documents(layout)[0]["annotations"]["envspec.without"] == feature
    carried = carried_folder(layout, tmp_path / "carried")
    skipped, verdict = verdicts(carried / "target.json", group, "training")
    assert skipped[skips] == f"the image was made without what `{feature}` needs (envspec image --without)"
    assert runs not in skipped and verdict == "pass"
    # a base that has it makes an image that lacks nothing, whatever the option says
    ran = lacking(machine, there, "--without", "compile,fabric")
    assert ran.status == 0 and "envspec.without" not in documents(layout)[0]["annotations"]
    skipped, _ = verdicts(carried_folder(layout, tmp_path / "whole") / "target.json", group, "training")
    assert skips not in skipped


def test_the_recipe_of_a_base_names_what_is_needed(machine: Machine, index: Index) -> None:
    with_torch(machine)
    ran = machine.envspec("image", SPEC, "--base-recipe")
    assert ran.status == 0 and "\nFROM debian:" in ran.out and "ca-certificates g++ tini" in ran.out


def image(
    machine: Machine, index: Index, table: str, *arguments: str, packages: tuple[str, ...] = (), cuda: str = ""
) -> Ran:
    index.add(wheel("lib", "1.0"), wheel("jupyterlab", "4.0"))
    machine.locked(
        spec=f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['lib', 'jupyterlab']\n"
        f"[image]\npython = 'base'\n{table}\n[targets.here]\nplatform = '{SUBDIR}'\n{cuda}"
    )
    there = PACKAGES | dict.fromkeys(packages, "1")
    write_base(machine.folder / "base", system(PYTHON, there))
    return machine.envspec("image", SPEC, "--base", "./base", "-o", "out", *arguments)


def target(layout: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(text(layout, "carried", "opt/envspec/target.json"))
    return found


def test_services_are_what_a_dockerfile_gives(machine: Machine, index: Index) -> None:
    ran = image(machine, index, "services = ['jupyter', 'ssh']", packages=("openssh-server",))
    assert ran.status == 0, ran.err
    layout = machine.folder / "out"
    config = documents(layout)[1]["config"]
    assert sorted(config["ExposedPorts"]) == ["2222/tcp", "8888/tcp"]
    assert config["Entrypoint"] == ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
    assert config["Healthcheck"]["Test"] == ["CMD", "/opt/envspec/healthcheck.sh"]
    carried = members(layout, "carried")
    for name in ("jupyter", "ssh", "common"):
        assert carried[f"opt/envspec/services/{name}.sh"].mode == 0o755
    assert target(layout)["services"] == ["jupyter", "ssh"]


@pytest.mark.slow
def test_a_server_that_the_base_lacks_is_refused_or_left_out(machine: Machine, index: Index) -> None:
    table = "services = ['jupyter', 'ssh']\napt = ['libgl1']"
    ran = image(machine, index, table)
    assert ran.status == 2 and "lacks libgl1, openssh-server" in ran.error and "--without ssh" in ran.hint
    ran = machine.envspec("image", SPEC, "--base-recipe")
    assert " libgl1 openssh-server " in ran.out and " /etc/ssh/ssh_host_*\n" in ran.out
    # what the spec asks for by itself isn't waived
    ran = image(machine, index, table, "--without", "ssh")
    assert ran.status == 2 and "lacks libgl1," in ran.error
    ran = image(machine, index, table, "--without", "ssh,fabric", packages=("libgl1",))
    assert ran.status == 0, ran.err
    layout = machine.folder / "out"
    assert (target(layout)["services"], target(layout)["without"]) == (["jupyter"], ["ssh"])
    scripts = {name for name in members(layout, "carried") if name.startswith("opt/envspec/services/")}
    assert scripts == {f"opt/envspec/services/{name}.sh" for name in ("common", "jupyter")}, "it starts what it has"
    carried = carried_folder(layout, machine.base / "carried")
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=carried, check=True)
    manifest, config = documents(layout)
    assert list(config["config"]["ExposedPorts"]) == ["8888/tcp"]
    assert manifest["annotations"]["envspec.without"] == "ssh"
    assert machine.envspec("image", SPEC, "--base", "./base", "--verify", "out").status == 0


def test_programs_of_other_images_need_their_digest(machine: Machine, index: Index) -> None:
    ran = image(machine, index, "services = ['code-server']")
    assert ran.status == 2 and "code-server from codercom/code-server" in ran.error and "no digest" in ran.error
    assert "--upgrade-images" in ran.hint and "--without code-server" in ran.hint
    assert not (machine.folder / "out").exists()
    ran = image(machine, index, "services = ['code-server']", "--without", "code-server")
    assert ran.status == 0 and target(machine.folder / "out")["services"] == []
    assert not any("services/" in name for name in members(machine.folder / "out", "carried"))


def test_cuda_compat_is_refused_with_the_reason(machine: Machine, index: Index) -> None:
    fabric = ("ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1")
    cuda = "cuda = '12.8'\ngpus = ['H100']\ncuda-compat = true\n"
    ran = image(machine, index, "", packages=fabric, cuda=cuda)
    assert ran.status == 2 and "takes cuda-compat from nvidia/cuda:12.8" in ran.error and "no digest" in ran.error
    assert "--without" not in ran.hint
    assert image(machine, index, "", packages=fabric, cuda=cuda.replace("true", "false")).status == 0
    # a spec without InfiniBand asks no base for its libraries
    assert image(machine, index, "fabric = 'none'", cuda=cuda.replace("true", "false")).status == 0
