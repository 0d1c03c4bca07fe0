"""Digests against a real registry on loopback (`docker-registry`), with images that `buildah` pushes.

Logins and tokens are tried on a double in tests/net/test_image_digests.py: no token server can be had here.
"""

import shutil
from collections.abc import Iterator

import pytest
from support.hub import Hub, serving_hub
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.net.registry import Registries

pytestmark = pytest.mark.e2e

for tool in ("docker-registry", "buildah"):
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}", allow_module_level=True)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with serving_hub(tmp_path_factory.mktemp("hub")) as started:
        yield started


def digest(name: str) -> str:
    return Registries(Fetcher(credentials={}, env={}).pool, {}, {"HOME": "nowhere"}).digest(name)


@pytest.mark.parametrize("form", ["oci", "docker"])
def test_the_digest_is_the_one_that_was_pushed(hub: Hub, form: str) -> None:
    pushed = hub.push(f"team/{form}:1", form=form)
    assert pushed.startswith("sha256:") and digest(f"{hub.host}/team/{form}:1") == pushed


@pytest.mark.slow
def test_an_index_goes_before_its_images(hub: Hub) -> None:
    one, two = hub.push("one:1"), hub.push("two:1")
    pushed = hub.push_index("both:1", "one:1", "two:1")
    assert pushed not in (one, two) and digest(f"{hub.host}/both:1") == pushed


@pytest.mark.slow
def test_what_is_not_there(hub: Hub) -> None:
    hub.push("there:1")
    for name in ("there:2", "missing:1"):
        with pytest.raises(IndexFailure, match=f"manifests/{name[-1]} doesn't exist"):
            digest(f"{hub.host}/{name}")


@pytest.mark.slow
def test_a_lock_pins_what_the_registry_has(hub: Hub, machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    pushed = hub.push("team/base:12")
    machine.spec(cpu("alpha") + f"[image]\nbase = '{hub.host}/team/base:12'\n")
    image = machine.locked().image(f"{hub.host}/team/base:12")
    assert image is not None and image.digest == pushed
    moved = hub.push("team/base:12", form="docker")
    machine.locked("--upgrade-images")
    image = machine.lock().image(f"{hub.host}/team/base:12")
    assert image is not None and image.digest == moved != pushed
    # what the lock says can be pulled
    hub.buildah("pull", "--tls-verify=false", f"docker://{hub.host}/team/base@{moved}")
