"""What `envspec init` asks in a terminal: the GPUs of the target, and their driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from envspec.base.errors import InputError
from envspec.cli.failure import tell
from envspec.prove.doctor.hardware import Hardware

_T = TypeVar("_T")

_GPUS = "GPUs of the target, such as H100, A100 (empty: none, for CPUs)"
_DRIVER = "the oldest driver on these machines, such as 550.54.15 (empty: not known)"


def gpus_and_driver(
    here: Hardware, check_gpus: Callable[[tuple[str, ...]], object], check_driver: Callable[[str], object]
) -> tuple[tuple[str, ...], str | None]:
    """Ask which GPUs and driver the target is for; this machine's are offered first. The checks raise InputError for
    an answer that no spec can have, and the question is put again."""
    if here.gpus:
        driver = f" with driver {here.driver}" if here.driver else ""
        if click.confirm(f"this machine has {', '.join(here.gpus)}{driver}: a target for these?", True, err=True):
            return here.gpus, here.driver
    gpus = _answer(_GPUS, lambda text: tuple(filter(None, map(str.strip, text.split(",")))), check_gpus)
    driver = _answer(_DRIVER, str, lambda text: check_driver(text) if text else None) if gpus else ""
    return gpus, driver or None


def _answer(question: str, read: Callable[[str], _T], check: Callable[[_T], object]) -> _T:
    while True:
        given = read(click.prompt(question, default="", show_default=False, err=True).strip())
        try:
            check(given)
        except InputError as error:
            tell(error)
        else:
            return given
