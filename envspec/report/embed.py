"""The page's data as JSON that can stand inside HTML, and the policy that lets only the page's own script and style
run."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from envspec.report.model import Page, Variant
from envspec.texts import shown

_INERT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What could end a script element, open a comment, or end a line in old engines, as JSON's own escapes."""


def document(page: Page) -> str:
    """The JSON that the script reads. In a list of targets, null stands for all of them."""
    whole = {
        "targets": [
            {"name": t.name, "packages": t.packages, "download": t.download, "unsized": list(t.unsized)}
            for t in page.targets
        ],
        "licences": [licence.name for licence in page.licences],
        "packages": [
            {
                "kind": package.kind,
                "name": package.name,
                "direct": bool(package.direct),
                "variants": [_variant(one, len(page.targets)) for one in package.variants],
            }
            for package in page.packages
        ],
        "links": [
            [-1 if link.source is None else link.source, link.target, link.requirement]
            + ([] if len(link.targets) == len(page.targets) else [list(link.targets)])
            for link in page.links
        ],
        "audited": page.audit is not None,
        "vulnerable": _vulnerable(page),
    }
    return json.dumps(_cleaned(whole), ensure_ascii=False, separators=(",", ":")).translate(_INERT)


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy for a page that holds exactly this style and this script, and loads nothing."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _variant(variant: Variant, targets: int) -> dict[str, Any]:
    return {
        "version": variant.version,
        "build": variant.build,
        "index": variant.index,
        "source": variant.source,
        "licence": variant.licence,
        "file": variant.file,
        "size": variant.size,
        "targets": None if len(variant.targets) == targets else list(variant.targets),
    }


def _vulnerable(page: Page) -> dict[str, list[str]]:
    """The identifiers of the vulnerabilities that count, by package."""
    found: dict[str, list[str]] = {}
    for one in page.audit.vulnerabilities if page.audit else ():
        names = found.setdefault(str(one.package), [])
        if one.id and one.id not in names:
            names.append(one.id)
    return found


def _cleaned(value: Any) -> Any:
    """Every text without the characters that steer a terminal or turn a line around."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {key: _cleaned(one) for key, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list) else value
