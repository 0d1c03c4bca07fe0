"""`envspec image` of specs with services, and with what images take from others: as a Dockerfile, or refused."""

import json
import subprocess
from pathlib import Path

import pytest
from support.base_image import PACKAGES, carried_folder, documents, members, system, text, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR
from support.machine import Machine, Ran
from support.packages import wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64"),
]


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
