"""The flake of a spec: golden texts, and that what a spec says reaches Nix and the shell as it was said."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from recipe_plans import ROOT, alone, of_target, parsed, shipped, shipped_spec, with_values
from support.examples import examples
from support.golden import golden

from envspec.base.errors import InputError
from envspec.export import nix
from envspec.export.make import make_spec_plan
from envspec.export.plan import SpecPlan
from envspec.export.quote import Unquotable, nix as quote
from envspec.lock.model import SoundLock

GOLDEN = Path(__file__).parent / "golden" / "nix"
HOSTILE = (
    '"; throw "x',
    "''${builtins.abort 1}''",
    "${system}",
    "$${system}",
    "$$${x}\\${y}\\\\${z}",
    "\\",
    '\\"',
    "$",
    "$$",
    "{",
    "'''",
    "''\\n",
    "a\r\nb\rc\td",
    "*/ } # \u2028\u2029\u0085\u202e",
    "$(id)`id`'\"!",
    "ü€\U0001f600\x7f\x1b",
)
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
NASTY = st.lists(st.sampled_from(["$", "{", "}", "\\", '"', "'", "''", "\n", "\r", "\t", "a", " "])).map("".join)

needs_nix = pytest.mark.skipif(shutil.which("nix-instantiate") is None, reason="nix-instantiate isn't installed")

# What the flake gives when all that it uses of nixpkgs hands back what it got.
_SHELL = """
let
  flake = import (builtins.getEnv "FLAKE");
  pkgs.mkShell = arguments: arguments;
  outputs = flake.outputs { self = { }; nixpkgs.legacyPackages.x86_64-linux = pkgs; };
in
{ inherit (flake) description; hook = outputs.devShells.x86_64-linux.default.shellHook; }
"""


def evaluate(expression: str, **variables: str) -> Any:
    """What `nix-instantiate` makes of an expression, read only: it has no store here and needs none."""
    command = ["nix-instantiate", "--eval", "--strict", "--json", "-E", "-"]
    ran = subprocess.run(
        [*command, "--store", "dummy://"],
        input=expression,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("spec", ["deit-v2.6", "llm-v2.9", "cpu-py311"])
def test_golden(spec: str) -> None:
    """Versions are cut: a new lock is no new flake."""
    text = re.sub(r"(PYTORCH_VERSION=)[0-9.]+", r"\g<1>X.Y.Z", nix.render(shipped_spec(spec))[nix.FILE])
    assert golden(GOLDEN / f"{spec}.flake.nix", text) == text


def test_carries_the_repositorys_own_code() -> None:
    assert sorted(nix.render(shipped_spec("cpu-py311"))) == ["flake.nix"], "specs of a repository share the code"
    spec, lock = parsed("cpu-py311")
    files = nix.render(make_spec_plan(spec, SoundLock.of(lock)))
    assert sorted(files) == ["environment.nix", "flake.nix"]
    assert files["environment.nix"] == (ROOT / "envspec/carried/environment.nix").read_text("utf-8")
    assert "import ./envspec/carried/environment.nix" in (ROOT / "flake.nix").read_text("utf-8")


def test_one_release_of_nixpkgs() -> None:
    assert f'inputs.nixpkgs.url = "{nix.NIXPKGS}";' in (ROOT / "flake.nix").read_text("utf-8")


def test_conda_is_refused() -> None:
    with pytest.raises(InputError, match="conda packages") as refused:
        nix.render(of_target("hpc-v2.7", "cu129-hopper"))
    assert "envspec install" in (refused.value.hint or "")


def test_targets_with_conda_packages_are_left_out_by_name() -> None:
    plan = shipped_spec("hpc-v2.7")
    pip = replace(shipped("cpu-py311", "cpu"), spec="hpc-v2.7", target="plain")
    text = nix.render(replace(plan, targets=(*plan.targets, pip)))[nix.FILE]
    assert "Not here, as they have conda packages: " + ", ".join(plan.names) in text
    assert text.count('"plain" = ') == 1 and '"cu129-hopper" = ' not in text


def test_what_only_images_have_stays_out() -> None:
    plan = with_values(
        shipped("mm-v2.9", "cu128-hopper"),
        env=(("NVIDIA_VISIBLE_DEVICES", "all"), ("HF_HOME", "/workspace/.cache/hf"), ("OMP_NUM_THREADS", "8")),
    )
    text = nix.render(alone(plan))[nix.FILE]
    assert '"cu128-hopper" = "unset PYTHONPATH\\nexport OMP_NUM_THREADS=8\\nif [ -e ' in text and "NVIDIA" not in text


def test_torch_compile_finds_a_compiler_and_the_driver_where_nixos_has_it(tmp_path: Path) -> None:
    """Triton asks /sbin/ldconfig for the driver, which NixOS hasn't; a shell of nixpkgs has a compiler by itself."""
    text = nix.render(of_target("mm-v2.9", "cu128-hopper"))[nix.FILE]
    check = text[text.index("writeShellScript") :]
    assert "PATH=${pkgs.stdenv.cc}/bin:$PATH\n" in check
    (line,) = re.findall(r"^ *(if .*TRITON_LIBCUDA_PATH.*)$", check, re.MULTILINE)
    assert text.count("TRITON_LIBCUDA_PATH=/run/opengl-driver/lib; fi") == 2
    for made in (False, True):
        if made:
            (tmp_path / "libcuda.so.1").touch()
        script = line.replace("/run/opengl-driver/lib", str(tmp_path)) + '\necho "${TRITON_LIBCUDA_PATH-unset}"'
        out = subprocess.run(["sh", "-euc", script], check=True, capture_output=True, text=True).stdout
        assert out == (f"{tmp_path}\n" if made else "unset\n")


def test_nul_is_refused() -> None:
    with pytest.raises(Unquotable):
        nix.render(replace(shipped_spec("cpu-py311"), description="a\0b"))


@needs_nix
@settings(max_examples=examples(30))
@given(st.lists(TEXT | NASTY, min_size=100, max_size=150))
def test_nix_reads_back_every_text(texts: list[str]) -> None:
    texts = [*texts, *HOSTILE]
    assert evaluate(f"[ {' '.join(quote(text) for text in texts)} ]") == texts


def shell_of(folder: Path, plan: SpecPlan) -> dict[str, Any]:
    file = folder / "flake.nix"
    file.write_text(nix.render(plan)[nix.FILE], encoding="utf-8")
    subprocess.run(["nix-instantiate", "--parse", file], check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = evaluate(_SHELL, FLAKE=str(file))
    return found


def variables(hook: str, names: Sequence[str]) -> list[str]:
    script = hook + "".join(f"printf '%s\\0' \"${name}\"\n" for name in names)
    out = subprocess.run(["sh", "-c", script], check=True, stdout=subprocess.PIPE).stdout
    return out.decode().split("\0")[:-1]


@needs_nix
def test_a_shell_has_no_modules_of_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/leaks")
    hook = shell_of(tmp_path, alone(shipped("cpu-py311", "cpu")))["hook"]
    assert variables(hook, ["PYTHONPATH", "PYTHONNOUSERSITE"]) == ["", "1"]


@needs_nix
@settings(max_examples=examples(30))
@given(
    description=TEXT | NASTY | st.sampled_from(HOSTILE),
    # one that names a folder of the image stays out: test_what_only_images_have_stays_out
    values=st.lists((TEXT | NASTY).filter(lambda text: not any(f in text for f in nix.OF_IMAGES)), max_size=20),
)
def test_hostile_values_stay_values(
    tmp_path_factory: pytest.TempPathFactory, description: str, values: list[str]
) -> None:
    values = [*values, *HOSTILE]
    names = [f"V{number}" for number in range(len(values))]
    of = with_values(shipped("cpu-py311", "cpu"), env=tuple(zip(names, values, strict=True)))
    plan = replace(alone(of), description=description)
    found = shell_of(tmp_path_factory.mktemp("flake"), plan)
    assert found["description"] == (description or plan.spec)
    assert variables(found["hook"], names) == values
