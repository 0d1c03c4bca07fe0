"""A software bill of materials of one target: CycloneDX 1.6 in JSON.

The same lock gives the same bytes: the serial number is made from the lock's own digest, and there is no time. Written
here and not by the format's reference library, which takes half a second a target; tests hold this text against the
library's, by value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from envspec.lock.graph import Graph, Node
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.write import dumps


def sbom(lock: Lock, target: LockedTarget) -> str:
    """The text of a bill with every package of `target`: hashes, licences as declared, and who depends on whom."""
    graph = Graph.of(target)
    refs = {node: purl(pin) for node, pin in graph.pins.items()}
    root = f"{lock.name}/{target.name}"
    needs: dict[str, Iterable[Node]] = {root: (edge.target for edge in graph.roots)}
    needs |= {refs[node]: (edge.target for edge in graph.outgoing.get(node, ())) for node in refs}
    number = uuid5(NAMESPACE_URL, f"urn:envspec:{_digest(_This(lock))}:{target.name}")
    document = {
        "components": [_component(pin, refs[node]) for node, pin in sorted(graph.pins.items())],
        "dependencies": [_dependency(ref, {refs[node] for node in needs[ref]}) for ref in sorted(needs)],
        "metadata": {
            "component": {
                "bom-ref": root,
                "name": lock.name,
                "properties": _properties(_facts(lock, target)),
                "type": "application",
            }
        },
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
    }
    return _text(document)


def _text(document: Mapping[str, Any]) -> str:
    """The document as JSON, each package and each of its edges on a line: that is what a review compares."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(f"    {json.dumps(one, ensure_ascii=False)}" for one in value)
            parts.append(f'  "{key}": [\n{lines}\n  ]')
        else:
            parts.append(f'  "{key}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


class _This:
    """A lock as a key: the very same object, as its value can't be hashed."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock

    def __hash__(self) -> int:
        return id(self.lock)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _This) and other.lock is self.lock


@lru_cache(maxsize=1)
def _digest(this: _This) -> str:
    # once for all targets of a lock
    return hashlib.sha256(dumps(this.lock).encode()).hexdigest()


def _dependency(ref: str, others: set[str]) -> dict[str, Any]:
    return {"dependsOn": sorted(others), "ref": ref} if others else {"ref": ref}


def _component(pin: Pin, ref: str) -> dict[str, Any]:
    made: dict[str, Any] = {"bom-ref": ref}
    if pin.artifact:
        made["hashes"] = [{"alg": "MD5", "content": pin.artifact.md5}] if pin.artifact.md5 else []
        made["hashes"].append({"alg": "SHA-256", "content": pin.artifact.sha256})
    if pin.licence:
        made["licenses"] = [_licence(pin.licence)]
    made |= {"name": pin.name, "properties": _properties(_of_pin(pin)), "purl": ref}
    return made | {"type": "library", "version": pin.version}


def purl(pin: Pin) -> str:
    """The package URL of a pin (purl-spec): `pkg:pypi/torch@2.9.1%2Bcu126?file_name=…`."""
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
    query = "&".join(f"{name}={_encoded(value)}" for name, value in sorted(qualifiers.items()) if value.strip())
    kind = "conda" if pin.kind == "conda" else "pypi"
    return f"pkg:{kind}/{_encoded(pin.name)}@{_encoded(pin.version)}" + (f"?{query}" if query else "")


def _encoded(text: str) -> str:
    return quote(text, safe="/:")


def _licence(text: str) -> dict[str, Any]:
    """A licence as CycloneDX sorts them: one that SPDX knows, an expression of such, or a mere name."""
    declared = {"acknowledgement": "declared"}
    if known := _spdx().get(text.lower()):
        return {"license": {**declared, "id": known}}
    if _is_expression(text):
        return {**declared, "expression": text}
    return {"license": {**declared, "name": text}}


@lru_cache
def _spdx() -> dict[str, str]:
    """SPDX's names, by their lower case: case means nothing in them."""
    lines = Path(__file__).with_name("data").joinpath("spdx.txt").read_text(encoding="utf-8").splitlines()
    return {line.lower(): line for line in lines if line and not line.startswith("#")}


_OPERATORS = ("and", "or", "with")


@lru_cache(maxsize=1024)
def _is_expression(text: str) -> bool:
    """Whether it is an SPDX licence expression (SPDX 3.0, annex B) of names that SPDX knows."""
    operand, depth = True, 0
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            if not operand:
                return False
            depth += 1
        elif token == ")":
            depth -= 1
            if operand or depth < 0:
                return False
        elif token.lower() in _OPERATORS:
            if operand:
                return False
            operand = True
        elif not (operand and token.lower() in _spdx()):
            return False
        else:
            operand = False
    return not operand and depth == 0


def _of_pin(pin: Pin) -> dict[str, str | None]:
    return {
        "index": pin.index,
        "file": pin.artifact.file if pin.artifact else None,
        "size": str(pin.artifact.size) if pin.artifact and pin.artifact.size is not None else None,
        "direct": "true" if pin.direct else None,
    }


def _facts(lock: Lock, target: LockedTarget) -> dict[str, str | None]:
    inputs = target.inputs
    return {
        "target": target.name,
        "platform": inputs.platform,
        "python": inputs.python,
        "cuda": inputs.cuda,
        "architectures": " ".join(target.architectures) or None,
        "driver-floor": target.driver_floor,
        "fingerprint": fingerprint(lock.inputs, inputs),
    }


def _properties(values: Mapping[str, str | None]) -> list[dict[str, str]]:
    named = {f"envspec:{name}": value for name, value in values.items() if value is not None}
    return [{"name": name, "value": value} for name, value in sorted(named.items())]
