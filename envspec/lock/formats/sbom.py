"""A software bill of materials of one target: CycloneDX 1.6 in JSON, by the reference library.

The same lock gives the same bytes: the serial number is made from the digest of the target's slice of the lock, and
there is no time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from envspec.lock.graph import Graph
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedPython, LockedTarget, Pin
from envspec.lock.slice import slice_digest, slice_of
from envspec.packages.own_extras import require_extra

if TYPE_CHECKING:
    from cyclonedx.model import HashType, Property
    from cyclonedx.model.component import Component
    from packageurl import PackageURL


def sbom(lock: Lock, target: LockedTarget) -> str:
    """Return the text of a bill with every package of `target`: hashes, licences as declared, and dependencies.

    Raises ToolError without cyclonedx-python-lib, envspec's extra `sbom`.
    """
    require_extra("sbom", "the format sbom needs")
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.output.json import JsonV1Dot6

    graph = Graph.of(target)
    digest = slice_digest(slice_of(lock, target))
    components = {node: _component(pin) for node, pin in graph.pins.items()}
    root = Component(
        type=ComponentType.APPLICATION,
        name=lock.name,
        bom_ref=f"{lock.name}/{target.name}",
        properties=_properties(lock, target, digest),
    )
    python = lock.python(target)
    runtime = [_python(python)] if python else []
    needs = {
        root.bom_ref: {
            *(components[node].bom_ref for node in dict.fromkeys(edge.target for edge in graph.roots)),
            *(component.bom_ref for component in runtime),
        }
    } | {
        component.bom_ref: {components[edge.target].bom_ref for edge in graph.outgoing.get(node, ())}
        for node, component in components.items()
    }
    bom = Bom(
        components=[*components.values(), *runtime],
        serial_number=uuid5(NAMESPACE_URL, f"urn:envspec:{digest}"),
        # not by `register_dependency`, which looks through all that is registered each time
        dependencies=[Dependency(ref, map(Dependency, required_refs)) for ref, required_refs in needs.items()],
    )
    bom.metadata.component = root
    # it looks through all dependencies for each component; every one has its entry above
    vars(bom)["validate"] = lambda: True
    return _without_time(JsonV1Dot6(bom).output_as_string())


def _without_time(text: str) -> str:
    document = json.loads(text)
    # the library insists on a time when the bill was made; the format doesn't, and a lock has none
    document["metadata"].pop("timestamp", None)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _component(pin: Pin) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseAcknowledgement

    declared = LicenseAcknowledgement.DECLARED
    licences = [LicenseFactory().make_from_string(pin.licence, license_acknowledgement=declared)] if pin.licence else []
    purl = _purl(pin)
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        bom_ref=purl.to_string(),
        purl=purl,
        hashes=_hashes(pin),
        licenses=licences,
        properties=_pin_properties(pin),
    )


def _python(build: LockedPython) -> Component:
    """The build of Python that environments and images get."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    purl = PackageURL("generic", None, "cpython", build.version, {"file_name": build.file})
    return Component(
        type=ComponentType.PLATFORM,
        name="cpython",
        version=build.version,
        bom_ref=purl.to_string(),
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=build.sha256)],
        properties=_property_list({"file": build.file, "release": build.build}),
    )


def _purl(pin: Pin) -> PackageURL:
    from packageurl import PackageURL

    qualifiers: dict[str, str] = {}
    if pin.kind == "conda":
        channel, _, subdir = pin.index.rpartition("/")
        kind = "tar.bz2" if pin.artifact and pin.artifact.file.endswith(".tar.bz2") else "conda"
        qualifiers = {"build": pin.build or "", "channel": channel, "subdir": subdir, "type": kind}
    elif pin.git:
        qualifiers = {"vcs_url": f"git+{pin.git.url}@{pin.git.commit}"}
    elif pin.url:
        qualifiers = {"download_url": pin.url}
    elif pin.artifact:
        qualifiers = {"file_name": pin.artifact.file}
    return PackageURL("conda" if pin.kind == "conda" else "pypi", None, pin.name, pin.version, qualifiers)


def _hashes(pin: Pin) -> list[HashType]:
    from cyclonedx.model import HashAlgorithm, HashType

    if pin.artifact is None:
        return []
    md5 = [HashType(alg=HashAlgorithm.MD5, content=pin.artifact.md5)] if pin.artifact.md5 else []
    return [HashType(alg=HashAlgorithm.SHA_256, content=pin.artifact.sha256), *md5]


def _pin_properties(pin: Pin) -> list[Property]:
    values = {
        "index": pin.index,
        "file": pin.artifact.file if pin.artifact else None,
        "size": str(pin.artifact.size) if pin.artifact and pin.artifact.size is not None else None,
        "direct": "true" if pin.direct else None,
    }
    return _property_list(values)


def _properties(lock: Lock, target: LockedTarget, digest: str) -> list[Property]:
    inputs = target.inputs
    return _property_list(
        {
            "target": target.name,
            "platform": inputs.platform,
            "python": inputs.python,
            "image-python": lock.inputs.image_python,
            "cuda": inputs.cuda,
            "architectures": " ".join(target.architectures) or None,
            "driver-floor": target.driver_floor,
            "fingerprint": fingerprint(lock.inputs, inputs),
            "lock-digest": digest,
        }
    )


def _property_list(values: dict[str, str | None]) -> list[Property]:
    from cyclonedx.model import Property

    return [Property(name=f"envspec:{name}", value=value) for name, value in values.items() if value is not None]
