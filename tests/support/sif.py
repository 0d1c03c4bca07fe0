"""The SIF of a recipe, built by the real Apptainer from the exported definition, and kept under ~/.cache.

Image registries can't be reached here: the two images that the definition names come from a real registry on loopback
(Debian's docker-registry). `debian:bookworm-slim` is a tree that debootstrap makes, with Python 3.11 in it, and
`astral/uv` holds the very uv that envspec runs. The definition differs from the exported one in these two names alone.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.export.apptainer import FILE
from envspec.export.plan import encode
from envspec.lock.model import SoundLock
from support.debian import debian_tree, kept
from support.hub import Hub, serving_hub
from support.serving import QuietFiles, serving

TOOLS = ("apptainer", "buildah", "docker-registry", "debootstrap")

_KEPT_SECONDS = 12 * 3600
"""How long an image stays after its last use, once another is built."""


def skip_without_tools() -> None:
    """Skip a module whose tools aren't there, by the first one's name."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}", allow_module_level=True)


def built_sif(recipe: Mapping[str, str], scratch: Path, binds: Sequence[str] = ()) -> Path:
    """The SIF of an exported recipe (path -> text) of one target, from the cache or built now, which takes minutes.
    `binds` are folders that its build sees, as `--bind` has them; it has the settings in `settings` of `scratch`."""
    parts = [*(part for named in sorted(recipe.items()) for part in named), *binds]
    digest = hashlib.sha256(encode("".join(f"{part}\0" for part in parts))).hexdigest()
    folder = kept() / "sif"
    folder.mkdir(exist_ok=True)
    done = folder / f"{digest[:16]}.sif"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file():
            for old in folder.glob("*.sif"):
                # another run may use a younger one
                if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    old.unlink()
            with serving_hub(scratch) as hub:
                push_bases(hub, scratch)
                build_sif(recipe, hub, scratch, folder / "new.sif", binds)
            (folder / "new.sif").rename(done)
        os.utime(done)
    return done


def push_bases(hub: Hub, scratch: Path) -> None:
    """Push the two images that definitions name."""
    import uv

    image = scratch / "uv-image"
    image.mkdir()
    shutil.copy(uv.find_uv_bin(), image / "uv")
    hub.push_tree("astral/uv", image)
    # the machine's own certificates, which it may need to reach PyPI, are part of this base
    hub.push_tree("debian", debian_tree(), {Path("/etc/ssl/certs/ca-certificates.crt"): "/etc/ssl/certs/"})


def build_sif(
    recipe: Mapping[str, str],
    hub: Hub,
    scratch: Path,
    sif: Path,
    binds: Sequence[str] = (),
    settings: str = "native-tls = true\n",
) -> None:
    """Build a SIF from an exported recipe of one target. `settings` is uv's own file; what else is in the folder
    `settings` of `scratch` is the builder's too."""
    folder = scratch / "recipe"
    for name, text in recipe.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(text))
    (exported,) = (name for name in recipe if name.endswith(f"/{FILE}"))
    definition = folder / exported
    text = re.sub(r"^From: (astral/uv|debian):\S+$", rf"From: {hub.host}/\1", recipe[exported], flags=re.MULTILINE)
    definition.write_text(text, encoding="utf-8")
    own = scratch / "settings"
    own.mkdir(exist_ok=True)
    (own / "uv.toml").write_text(settings)
    wheels = scratch / "index" / "torch"
    wheels.mkdir(parents=True, exist_ok=True)
    wheel = torch_wheel()
    if not (wheels / wheel.name).exists():
        (wheels / wheel.name).symlink_to(wheel)
    handler = partial(QuietFiles, directory=str(wheels.parent))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        (own / "pytorch-index").write_text(f"{url}\n")
        command = ["apptainer", "build", "--no-https", "--notest", "--force", "--bind", f"{own}:/mnt"]
        # whatever a definition would write into the machine's own folders ends the build
        (scratch / "empty").mkdir(exist_ok=True)
        read_only = [f"{scratch / 'empty'}:{folder}:ro" for folder in ("/tmp", "/var/tmp")]
        command += [f"--bind={bind}" for bind in (*read_only, *binds)]
        # nobody carries this SIF anywhere: the least compression takes the least time
        command += ["--mksquashfs-args", "-Xcompression-level 1"]
        done = subprocess.run(
            [*command, str(sif), exported], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert list((scratch / "empty").iterdir()) == []


def torch_wheel() -> Path:
    """The CPU wheel of torch in a folder that pip is told to look into. Skips where there is none."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, env=os.environ
    )
    folders = re.findall(r"find-links='(.*)'", told.stdout)
    found = [
        path for words in folders for word in words.split() for path in Path(word).glob("torch-2.13.0+cpu-cp311-*.whl")
    ]
    if not found:
        pytest.skip("no wheel of torch 2.13.0+cpu for Python 3.11 in pip's find-links")
    return found[0]


def shipped_recipe(spec: str, target: str, name: str = "apptainer") -> dict[str, str]:
    """What `envspec export --format apptainer` writes for a shipped spec's target, by path, with the base's own Python:
    the build that its lock names can't be fetched here."""
    from envspec.export.folder import render
    from envspec.export.make import make_plan
    from envspec.lock.read import load
    from envspec.spec.parse import load_spec

    root = Path(__file__).resolve().parents[2]
    lock = load(root / "locks" / spec / "envspec.lock")
    locked = lock.target(target)
    assert locked is not None
    parsed = load_spec(root / "specs" / f"{spec}.toml")
    of_base = replace(parsed, image=replace(parsed.image, python="base"))
    return render(make_plan(of_base, SoundLock.of(lock), locked), name)
