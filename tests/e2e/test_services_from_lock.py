"""JupyterLab and sshd in an image straight from a lock, on a base that `--base-recipe` describes: what the Dockerfile
of the same spec gives (test_image.py), asked the same way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.oci import Builder, entry, envspec, lock_spec, opened_builder, skip_without
from support.sif import torch_wheel
from test_image import SPEC, container, started, test_the_services  # noqa: F401 (fixtures, and a test that is run here)

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

WHEELS = SPEC.replace('"docopt==0.6.2", ', "").replace('allow-source = ["docopt"]\n', "")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip_without("ssh", "ssh-keygen")
    torch_wheel()
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "served", WHEELS)
    return folder


@pytest.fixture(scope="module")
def builder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with opened_builder(tmp_path_factory.mktemp("buildah"), project, "cpu", "") as made:
        yield made


@pytest.fixture(scope="module")
def image(builder: Builder, project: Path) -> str:
    recipe = envspec(project, "image", "specs/served.toml", "--base-recipe")
    assert " openssh-server " in recipe and " less " in recipe
    layout = builder.ready_base(recipe)
    envspec(project, "image", "specs/served.toml", "--base", str(layout), "-o", "image.tar")
    return builder("pull", "-q", f"oci-archive:{project / 'image.tar'}").strip()


def test_it_says_what_it_is(builder: Builder, image: str, container: str) -> None:  # noqa: F811
    told = json.loads(builder("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert set(told["ExposedPorts"]) == {"8888/tcp", "2222/tcp"}
    ran = builder.run(container, *entry("smoke", "--quick", "--only", "static"))
    assert ran.returncode == 0 and " 0 failed" in ran.stderr, ran.stderr[-5000:]
