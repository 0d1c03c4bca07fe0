"""The keys of a lock's tables, with the types and the forms of their values."""

from __future__ import annotations

import re

from envspec.lock.listed import LISTS
from envspec.packages.variants import LABEL

FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Both become folders; no such name leads out of the parent folder."""

LOCK_NAME = "envspec.lock"


TOP = ("lock-version", "env", "base", "images", "inventory", "targets", "python", "corrections", "conda", "pip")
ROWS = ("artifacts", "built-with", "code", "dependencies", "metadata", "overwrites")
"""The lists that may hold tables."""

TARGET = {
    "platform": str,
    "python": str,
    "python-range": str,
    "glibc": str,
    "cuda": str,
    "gpus": list,
    "architectures": list,
    "driver": str,
    "cpu": str,
    "driver-floor": str,
    "metadata": list,
    "inspect": bool,
    **dict.fromkeys((listed.key for listed in LISTS), list),
}
PACKAGE = {
    "name": str,
    "version": str,
    "build": str,
    "index": str,
    "url": str,
    "git": dict,
    "licence": str,
    "requires-python": str,
    "publisher": dict,
    "targets": list,
    "provides": list,
    "dependencies": list,
    "overwrites": list,
    "code": list,
    "built-with": list,
    "artifacts": list,
}
GIT = {"url": str, "commit": str, "subdirectory": str}
_FILE = {"file": str, "sha256": str, "size": int}
ARTIFACT = {**_FILE, "md5": str, "variant": str, "properties": list, "priorities": list, "inert": bool,
            "targets": list}  # fmt: skip
BUILT_WITH = {"name": str, "version": str, **_FILE, "targets": list}
PUBLISHER = dict.fromkeys(("kind", "repository", "workflow", "environment", "email"), str)
PYTHON = {"platform": str, "version": str, "build": str, **_FILE}
BASE = {"image": str, "sif": str, "prefix": str, "module": str, "replace": dict}
INVENTORY = dict.fromkeys(("platform", "sha256", "digest"), str)
EDGE = {"requires": str, "targets": list}

_SPECIFIER = re.compile(r"[<>=!~]=?=?[A-Za-z0-9.*+!]+(?:,[<>=!~]=?=?[A-Za-z0-9.*+!]+)*")

# What a value may look like where it goes on into a path, a command or another file's syntax.
SHAPES = {
    "name": (re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*"), "a package's name"),
    "package": (re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), "a package's name"),
    "version": (re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*"), "a version"),
    "build": (re.compile(r"[A-Za-z0-9_.+]+"), "a build string"),
    "sha256": (re.compile(r"[0-9a-f]{64}"), "64 hexadecimal digits"),
    "md5": (re.compile(r"[0-9a-f]{32}"), "32 hexadecimal digits"),
    "commit": (re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}"), "a full commit"),
    "file": (re.compile(r"[^/\\\s\"'`$\x00-\x1f\x7f]+"), "a file's name"),
    "url": (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\"\\\x00-\x1f\x7f]+"), "a URL"),
    "subdirectory": (re.compile(r"[^\s\"\\\x00-\x1f\x7f]+"), "a path"),
    "index": (re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*"), "the name of an index"),
    "variant": (LABEL, "a variant's label"),
    "properties": (re.compile(r"[a-z0-9_]+ :: [a-z0-9_]+ :: [a-z0-9_.]+"), "properties of a variant"),
    "priorities": (re.compile(r"[a-z0-9_]{1,64}"), "namespaces of variants"),
    "kind": (re.compile(r"[A-Za-z][A-Za-z0-9 ._-]*"), "the kind of a publisher"),
    "holds": (
        re.compile(r"cuda_\d{2}(?:\.\d)?|(?:sm|compute)_[1-9]\d{1,2}[af]?|listed|rest-unread"),
        'what a wheel holds, as "sm_90"',
    ),
    "cuda": (re.compile(r"\d+\.\d+"), "a CUDA version"),
    "cpu": (re.compile(r"x86-64-v[1-4]|armv[89](?:\.[1-9])?-a"), "a kind of processors"),
    "platform": (re.compile(r"[a-z0-9]+-[a-z0-9]+"), "a platform"),
    "python": (re.compile(r"\d+\.\d+"), "a Python version"),
    "python-range": (_SPECIFIER, "a version specifier"),
    "requires-python": (_SPECIFIER, "a version specifier"),
    "glibc": (re.compile(r"\d+\.\d+"), "a glibc version"),
    "driver-floor": (re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}"), "a driver version"),
    "architectures": (re.compile(r"sm_[1-9]\d{1,2}"), 'compute capabilities as "sm_90"'),
}
CORRECTION = dict.fromkeys(("package", "version", "file", "sha256", "constraint", "reason"), str)
