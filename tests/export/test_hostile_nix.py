"""Specs that mean harm, read by Nix and by a real builder: each text comes back as it was, and nothing besides."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hostile_specs import PIECES, SLOWLY, harmless_plan, hostile, must_be_clear, with_words
from hypothesis import HealthCheck, given, settings, strategies as st
from recipe_plans import text_in, with_values
from recipe_readers import _exported

from envspec.base.errors import InputError
from envspec.export import folder
from envspec.export.plan import SpecPlan

NIX = """
files: map (file:
  let
    flake = import file;
    nixpkgs.legacyPackages.x86_64-linux = { mkShell = made: made; writeShellScript = name: text: text; };
    out = flake.outputs { self = { }; inherit nixpkgs; };
  in {
    names = builtins.attrNames flake;
    inherit (flake) description;
    inputs = builtins.toJSON flake.inputs;
    outputs = builtins.attrNames out;
    targets = builtins.attrNames out.devShells.x86_64-linux;
    hook = out.devShells.x86_64-linux.default.shellHook;
    shell = builtins.attrNames out.devShells.x86_64-linux.default;
  }) files
"""


def flakes_are_inert(tmp: Path, words: list[tuple[str, str]]) -> None:
    plans: list[SpecPlan] = []
    for description, value in words:
        plan = with_words(harmless_plan(), description, value)
        try:
            text = folder.render_spec(plan, "nix")["flake.nix"]
        except InputError as error:
            must_be_clear(error)
            continue
        (tmp / f"{len(plans)}.nix").write_bytes(text.encode())
        plans.append(plan)
    files = " ".join(f"{tmp}/{number}.nix" for number in range(len(plans)))
    ran = subprocess.run(
        ["nix-instantiate", "--eval", "--strict", "--json", "-E", f"({NIX}) [ {files} ]"],
        capture_output=True,
        env={**os.environ, "HOME": str(tmp), "NIX_STATE_DIR": str(tmp / "state"), "NIX_STORE_DIR": str(tmp / "store")},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    for one, plan in zip(found, plans, strict=True):
        assert one["description"] == (plan.description or plan.spec)
        known = dict(plan.targets[-1].runtime.env)
        kept = {name: value for name, value in known.items() if f"export {name}=" in one["hook"]}
        assert _exported(one["hook"], kept) == {name: known[name] for name in kept}
        # nothing but what a harmless one has
        kinds = ("names", "inputs", "outputs", "targets", "shell")
        assert [one[name] for name in kinds] == [found[0][name] for name in kinds]


nix_missing = pytest.mark.skipif(shutil.which("nix-instantiate") is None, reason="no nix-instantiate")


@pytest.mark.slow
@nix_missing
def test_nix_reads_every_piece(tmp_path: Path) -> None:
    flakes_are_inert(tmp_path, [("plain", "plain"), *((piece, piece) for piece in PIECES)])


@pytest.mark.nightly
@nix_missing
@pytest.mark.slow
@settings(SLOWLY, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=60))
def test_nix_reads_thousands(tmp_path_factory: pytest.TempPathFactory, words: list[tuple[str, str]]) -> None:
    flakes_are_inert(tmp_path_factory.mktemp("flakes"), [("plain", "plain"), *words])


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("buildah") is None, reason="no buildah")
def test_a_real_builder_reads_every_piece(tmp_path: Path) -> None:
    """The ENV and LABEL lines that the Dockerfile has, in one that needs no base image."""
    values: dict[str, str] = {}
    for number, text in enumerate((*PIECES, *(f"a{piece}{other}b" for piece in PIECES for other in ("\\", '"', "$")))):
        plan = harmless_plan().targets[0]
        try:
            folder.render(with_values(plan, env=(("A", text),)), "dockerfile")
        except InputError:
            continue
        values[f"V{number}"] = text
    env = tuple(values.items())
    rendered = folder.render(with_values(harmless_plan().targets[0], env=env), "dockerfile")
    lines = text_in(rendered, "Dockerfile").split("\nENV ")[-1]
    kept = f"FROM scratch\nENV {lines.partition(chr(10) + 'LABEL ')[0]}\n"
    (tmp_path / "Dockerfile").write_bytes(kept.encode())
    places = ["--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    build = ["buildah", *places, "bud", "--isolation", "chroot", "--quiet", "-t", "hostile", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True)
    inspect = ["buildah", *places, "inspect", "--type", "image", "hostile"]
    told = json.loads(subprocess.run(inspect, check=True, capture_output=True).stdout)["OCIv1"]["config"]["Env"]
    found = dict(entry.split("=", 1) for entry in told)
    assert found.keys() == {*values, "PATH", "CONDA_PREFIX", "PYTHONPATH"}
    assert {name: found[name] for name in values} == values
