"""Layers of configuration at the command line: what counts, what `doctor` says of it, and which servers are asked."""

import json
import os
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.site import place_site

SPEC = "specs/demo.toml"


@pytest.mark.slow
@pytest.mark.parametrize("upper", ["user", "asked", "variable"])
def test_an_address_that_a_layer_has_replaced_is_never_asked(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, upper: str
) -> None:
    """Neither the site's own, nor the spec's, whoever replaced them: with no word of the user's, all is the site's."""
    machine.default = ""
    private = "https://internal.invalid/simple"
    spec = cpu("alpha", "beta").replace(
        "[pip]\n", f"[pip]\nindexes = {{ internal = '{private}' }}\nsources = {{ beta = 'internal' }}\n"
    )
    machine.spec(spec)
    with Index() as other:
        for one in (index, other):
            one.add(wheel("alpha", "1.0"), wheel("beta", "1.0"))
        place_site(
            monkeypatch, tmp_path, "config.toml",
            f'[mirrors]\npypi = "{index.url}"\ninternal = "{index.url}"\n"docker.io" = ""\n',
        )  # fmt: skip
        (machine.home / ".config/envspec/config.toml").unlink(missing_ok=True)
        machine.locked()
        assert index.asked and not other.asked
        index.asked.clear()
        env = {name: str(machine.base / name) for name in ("UV_CACHE_DIR", "ENVSPEC_CACHE_DIR")}
        lines = f'pypi = "{other.url}"\ninternal = "{other.url}"'
        if upper == "user":
            machine.configure(lines)
        elif upper == "asked":
            (tmp_path / "own.toml").write_text(f"[mirrors]\n{lines}\n")
            env["ENVSPEC_CONFIG"] = str(tmp_path / "own.toml")
        else:
            machine.configure(f'internal = "{other.url}"')
            env["UV_DEFAULT_INDEX"] = other.url
        machine.locked("--upgrade", env=env)
        machine.envspec("bundle", SPEC, "-o", "x.tar", env=env, status=0)
        assert other.asked and not index.asked, index.asked


def test_doctor_says_each_value_and_its_file(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = place_site(
        monkeypatch, tmp_path, "config.toml",
        '[mirrors]\npypi = "https://robot:hunter2@site/simple"\npytorch = "https://site/whl"\n'
        '[site]\nproxy = "http://r:hunter2@p:1"\n',
    )  # fmt: skip
    user = machine.configure('pytorch = "https://user/whl"')
    machine.default = ""
    told = machine.envspec("doctor")
    assert "hunter2" not in told.out + told.err
    lines = [line.strip().removeprefix("info: ") for line in told.out.splitlines()]
    assert f'mirrors.pypi = "https://site/simple" ({site}:2:8)  [configured]' in lines
    assert f'mirrors.pytorch = "https://user/whl" ({user}:2:11)  [configured]' in lines
    machine.default = "https://bob:hunter2@variable/simple"
    told = machine.envspec("doctor", "--json")
    (check,) = (one for one in json.loads(told.out)["checks"] if one["check"] == "configuration")
    said = [one["message"] for one in check["findings"]]
    assert 'mirrors.pypi = "https://variable/simple" (UV_DEFAULT_INDEX)' in said
    user.write_text("[mirror]\n")
    told = machine.envspec("doctor", status=1)
    assert f"{user}:1:2: unknown key 'mirror' at the top level" in told.out and "[configuration-broken]" in told.out


def test_what_is_final_holds_at_the_command_line(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.spec(cpu("alpha"))
    place_site(
        monkeypatch, tmp_path, "config.toml",
        f'final = ["mirrors.pypi", "trusted-indexes"]\n[mirrors]\npypi = "{index.url}"\n',
    )  # fmt: skip
    machine.default = "https://elsewhere.invalid/simple"
    assert "UV_DEFAULT_INDEX says otherwise than mirrors.pypi" in machine.envspec("lock", SPEC, status=2).err
    machine.default = ""
    before = (machine.home / ".config/envspec/config.toml").read_bytes()
    ran = machine.envspec("lock", SPEC, "--trust-index", "internal=packages.example.org", status=2)
    assert "--trust-index says otherwise than trusted-indexes.internal" in ran.err
    assert (machine.home / ".config/envspec/config.toml").read_bytes() == before
    machine.locked()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told from a plain user here")
def test_a_plain_user_makes_no_layer_of_the_site(
    machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = place_site(monkeypatch, tmp_path, "config.toml", f'[mirrors]\npypi = "{index.url}"\n')
    os.chown(path, 4242, 4242)
    machine.spec(cpu("alpha"))
    assert "the site's configuration can't be trusted" in machine.envspec("lock", SPEC, status=2).err
