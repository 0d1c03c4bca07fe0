"""Images at a site: apt's archives from a mirror on loopback, which passes requests on, and what of it the image keeps.

`support.oci` and `support.sif` say what stands in for the images and the index that can't be had here.
"""

import json
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from support.debian import debian_mirror
from support.oci import Builder, envspec, lock_spec, opened_builder, skip_without
from support.serving import Quiet, serving
from support.sif import TOOLS, built_sif

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

SPEC = """[env]
name = "site"
python = "3.11"
[pip]
dependencies = ["six==1.16.0"]
[targets.here]
platform = "linux-64"
[image]
python = "base"
apt = ["sl"]
"""


@contextmanager
def mirror() -> Iterator[tuple[str, list[str]]]:
    """A mirror of Debian's archive under another path, and the requests that it got."""
    asked: list[str] = []

    class Mirror(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            name = self.path.removeprefix("/deb/")
            try:
                with urllib.request.urlopen(f"{debian_mirror().rstrip('/')}/{name}") as answer:
                    body = answer.read()
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
            except urllib.error.HTTPError as error:
                self.send_error(error.code)

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Mirror)) as url:
        yield f"{url}/deb", asked


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    skip_without()
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "site", SPEC)
    envspec(folder, "export", "specs/site.toml", "--format", "dockerfile", "-o", "recipe")
    with opened_builder(tmp_path_factory.mktemp("buildah"), folder / "recipe", "here", "http://127.0.0.1:9") as made:
        yield made


def test_apt_reads_the_mirror_and_the_image_forgets_it(builder: Builder, tmp_path: Path) -> None:
    with mirror() as (url, asked):
        (tmp_path / "apt-mirrors").write_text(f"debian={url}")
        builder.build("localhost/site", f"--secret=id=apt-mirrors,src={tmp_path / 'apt-mirrors'}")
        assert any(path.endswith("InRelease") for path in asked) and any("/sl_" in path for path in asked)
        host = url.removeprefix("http://").partition("/")[0]
    assert host not in builder("inspect", "--type", "image", "localhost/site")
    at = builder("from", "localhost/site").strip()
    tree = builder("mount", at).strip()
    kept = subprocess.run(["grep", "-rl", host, "etc", "var", "run", "opt"], cwd=tree, capture_output=True, text=True)
    assert kept.stdout == "" and not (Path(tree) / "var/lib/apt/site").exists()
    assert builder.run(at, "/usr/games/sl", "--version").returncode in (0, 1)
    sources = (Path(tree) / "etc/apt/sources.list").read_text()
    assert debian_mirror().rstrip("/") in sources


def test_a_mirror_changes_no_layer(builder: Builder, tmp_path: Path) -> None:
    """Nor would another one, with the same packages, nor a variable that isn't set, as compose gives it."""
    fixed = "--timestamp=315532800"
    layers = []
    with mirror() as (url, _):
        (tmp_path / "apt-mirrors").write_text(f"debian={url}")
        unset = ["--secret=id=apt-mirrors,env=APT_MIRRORS_UNSET", "--build-arg=no_proxy"]
        for given in ([], [f"--secret=id=apt-mirrors,src={tmp_path / 'apt-mirrors'}"], unset):
            builder.build("localhost/site", "--no-cache", fixed, *given)
            layers.append(json.loads(builder("inspect", "--type", "image", "localhost/site"))["OCIv1"]["rootfs"])
    assert layers[0] == layers[1] == layers[2]


def test_a_definition_reads_the_mirror_and_the_sif_forgets_it(tmp_path: Path) -> None:
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing")
    (tmp_path / "specs").mkdir()
    # another one each time, as a SIF that was built before would ask nobody
    spec = f'{SPEC}env = {{ STAMP = "{secrets.token_hex(4)}" }}\n'
    (tmp_path / "specs" / "site.toml").write_text(spec)
    envspec(tmp_path, "lock", "specs/site.toml")
    envspec(tmp_path, "export", "specs/site.toml", "--format", "apptainer", "-o", "recipe")
    recipe = tmp_path / "recipe"
    texts = {path.relative_to(recipe).as_posix(): path.read_text() for path in recipe.rglob("*") if path.is_file()}
    texts.pop("here/apptainer-offline.def")
    (scratch := tmp_path / "scratch").mkdir()
    (scratch / "settings").mkdir()
    with mirror() as (url, asked):
        (scratch / "settings" / "apt-mirrors").write_text(f"debian={url}\n")
        sif = built_sif(texts, scratch)
        assert any("/sl_" in path for path in asked)
    host = url.removeprefix("http://").partition("/")[0]
    look = [
        "apptainer",
        "exec",
        str(sif),
        "sh",
        "-c",
        f"grep -rls {host} /etc/apt /var /opt; ls /var/lib/apt /usr/games/sl",
    ]
    ran = subprocess.run(look, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and host not in ran.stdout and "site" not in ran.stdout.split(), ran.stdout + ran.stderr
    sif.unlink()
