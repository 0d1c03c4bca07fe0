"""The index proxy over real HTTP, and what a real uv takes from it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
import tomli
from support.index import Index
from support.packages import wheel
from support.proxied import asked
from support.torch_packages import stand_ins
from uv import find_uv_bin

from envspec.base.errors import IndexFailure
from envspec.facts import wheels
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.pages import belongs, facts_page
from envspec.net.index_proxy.server import IndexProxy, open_proxy, stub_metadata, stub_page
from envspec.net.simple_page import Page

STRANGERS = ("idna", "packaging", "numpy", "nvidia-cublas-cu12", "certifi", "torch-evil", "triton", "")


@pytest.fixture(scope="module")
def proxy() -> Iterator[IndexProxy]:
    with open_proxy() as opened:
        yield opened


def get(proxy: IndexProxy, url: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    try:
        with urlopen(asked(proxy, url, method), timeout=10) as reply:
            return reply.status, reply.read(), dict(reply.headers)
    except HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def test_it_listens_on_loopback_alone(proxy: IndexProxy) -> None:
    assert proxy.base.startswith("http://127.")


@pytest.mark.parametrize("variant", wheels.variants())
def test_a_page_equals_the_facts(proxy: IndexProxy, variant: str) -> None:
    for project in FAMILY:
        status, body, headers = get(proxy, f"{proxy.url(variant)}/{project}/")
        expected = facts_page(variant, project, belongs(variant))
        if not expected:
            assert status == 404
            continue
        page = json.loads(body)
        assert (status, headers["Content-Type"]) == (200, "application/vnd.pypi.simple.v1+json")
        assert (page["name"], page["files"]) == (project, expected)
        # its address has a digest of the facts
        assert headers["Cache-Control"] == "max-age=600"


def test_what_an_index_says_besides_the_facts_is_not_kept() -> None:
    with open_proxy({"cu126": lambda variant, project: []}) as live, open_proxy() as usual:
        status, _, headers = get(live, f"{live.url('cu126')}/torch/")
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert (live.lasts("cu126"), usual.lasts("cu126")) == (False, True)
        assert live.url("cu126").rpartition("/")[2] == "cu126" != usual.url("cu126").rpartition("/")[2]
        assert usual.variant_of(usual.url("cu126", triton=True)) == "cu126"


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("variant", ["cpu", "cu126"])
def test_other_names_are_not_there(proxy: IndexProxy, variant: str, stranger: str) -> None:
    status, _, headers = get(proxy, f"{proxy.url(variant)}/{stranger}/")
    assert (status, headers["Cache-Control"]) == (404, "no-store")


def test_triton_is_there_where_it_is_asked_for(proxy: IndexProxy) -> None:
    assert get(proxy, f"{proxy.url('cu126', triton=True)}/triton/")[0] == 200
    assert get(proxy, f"{proxy.url('cu126', triton=True)}/idna/")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/cu999/torch/",
        "/cu126",
        "/cu126/files/torch.whl",
        "/cu126/files/x.whl.metadata",
        "/../../etc/passwd",
        "/cu126/torch/x/y",
        "/%00/torch/",
    ],
)
def test_odd_paths_are_not_there(proxy: IndexProxy, path: str) -> None:
    assert get(proxy, proxy.base + path)[0] == 404


def test_metadata_equals_the_facts(proxy: IndexProxy) -> None:
    page_url = f"{proxy.url('cu126')}/torch/"
    rows = json.loads(get(proxy, page_url)[1])["files"]
    assert len(rows) > 10
    for row in rows[:: len(rows) // 10]:
        url = urljoin(page_url, row["url"])
        assert proxy.owns(url) and proxy.variant_of(url) == "cu126"
        known = wheels.load("cu126").file(row["filename"])
        assert known is not None and row["hashes"] == {"sha256": known.sha256}
        status, body, _ = get(proxy, url + ".metadata")
        assert (status, body) == (200, wheels.metadata_text(known))


def test_head_has_no_body(proxy: IndexProxy) -> None:
    status, body, headers = get(proxy, f"{proxy.url('cu126')}/torch/", "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1000


def test_a_package_that_conda_provides_is_a_page_of_metadata_alone() -> None:
    """uv would fetch a wheel to learn its METADATA and hash."""
    (row,) = stub_page("a-b", "1.0")
    metadata = stub_metadata("a-b", "1.0")
    assert row["core-metadata"] is True and row["filename"] == "a_b-1.0-py3-none-any.whl"
    assert row["hashes"] == {"sha256": hashlib.sha256(metadata).hexdigest()} and b"Requires-Dist" not in metadata


def test_a_cuda_page_holds_builds_of_that_cuda_alone() -> None:
    for variant in wheels.variants():
        for project in FAMILY:
            versions = {wheel.version for wheel in wheels.load(variant).files(project) if belongs(variant)(wheel)}
            if variant != "cpu":
                assert all(version.endswith(f"+{variant}") for version in versions)


def test_a_mirrors_pages_are_joined_and_the_facts_win() -> None:
    known = wheels.load("cu126").files("torch")[-1]
    live: Page = [
        {"filename": known.file, "url": "http://mirror/forged.whl", "hashes": {"sha256": "0" * 64}},
        {
            "filename": "torch-99.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl",
            "url": "http://mirror/new.whl",
            "hashes": {"sha256": "1"},
        },
    ]
    with open_proxy({"cu126": lambda variant, project: live if project == "torch" else []}) as proxy:
        files = json.loads(get(proxy, f"{proxy.url('cu126')}/torch/")[1])["files"]
        by_name = {row["filename"]: row for row in files}
        assert by_name[known.file]["hashes"] == {"sha256": known.sha256}
        assert by_name["torch-99.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl"]["url"] == "../f/1./http/mirror/new.whl"
        assert len(files) == len(facts_page("cu126", "torch", belongs("cu126"))) + 1


def test_a_mirror_of_a_cuda_that_the_facts_do_not_know() -> None:
    live: Page = [
        {
            "filename": "torch-99.0+cu150-cp312-cp312-manylinux_2_28_x86_64.whl",
            "url": "http://mirror/new.whl",
            "hashes": {"sha256": "1"},
        }
    ]
    with open_proxy({"cu150": lambda variant, project: live if project == "torch" else []}) as proxy:
        (row,) = json.loads(get(proxy, f"{proxy.url('cu150')}/torch/")[1])["files"]
        assert (row["filename"], row["hashes"]) == (live[0]["filename"], live[0]["hashes"])
        behind = proxy.file(urljoin(f"{proxy.url('cu150')}/torch/", row["url"]))
        assert behind is not None and behind.url == live[0]["url"]
        assert get(proxy, f"{proxy.url('cu150')}/idna/")[0] == 404
        assert get(proxy, f"{proxy.url('cu150')}/files/x.whl.metadata")[0] == 404


def test_a_mirror_that_fails_is_kept_for_the_message() -> None:
    def broken(variant: str, project: str) -> Page:
        raise IndexFailure("https://mirror/torch/ can't be read")

    with open_proxy({"cu126": broken}) as proxy:
        status, body, _ = get(proxy, f"{proxy.url('cu126')}/torch/")
        assert (status, body) == (424, b"https://mirror/torch/ can't be read")


def test_the_port_is_free_again_afterwards() -> None:
    with open_proxy() as proxy:
        url = proxy.url("cpu")
    with pytest.raises(OSError):
        urlopen(f"{url}/torch/", timeout=2)


def compiled(
    proxy: IndexProxy, variant: str, index: Index, folder: Path, *requirements: str
) -> dict[str, tuple[str, str]]:
    """What a plain `uv pip compile` takes with the proxy first and the index as PyPI: name → (version, address)."""
    (folder / "requirements.in").write_text("\n".join(requirements))
    command = [
        find_uv_bin(), "pip", "compile", "requirements.in", "--format", "pylock.toml", "--quiet", "--no-header",
        "--python", sys.executable, "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_28",
        "--only-binary", ":all:", "--index", proxy.with_login(proxy.url(variant)), "--default-index", index.url,
            "--no-config",
    ]  # fmt: skip
    env = {"HOME": str(folder), "PATH": str(folder / "missing")}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    packages = tomli.loads(ran.stdout)["packages"]
    return {package["name"]: (package["version"], package["wheels"][0]["url"]) for package in packages}


@pytest.mark.e2e
def test_uv_takes_the_family_from_the_proxy_and_nothing_else(proxy: IndexProxy, index: Index, tmp_path: Path) -> None:
    index.add(*stand_ins("cu126", "2.9.1"), wheel("idna", "99.0"), wheel("needs-torch", "1.0", "torch", "idna"))
    # what a confused or hostile PyPI could offer
    index.add(wheel("torch", "99.0"), wheel("torchvision", "99.0"))
    found = compiled(proxy, "cu126", index, tmp_path, "needs-torch", "torch<2.9.2")
    version, url = found.pop("torch")
    assert version == "2.9.1+cu126" and proxy.owns(url)
    assert found["idna"][0] == "99.0"
    assert all(url.startswith(index.origin) for _, url in found.values())
    assert index.paths("^/simple/torch/") == []
