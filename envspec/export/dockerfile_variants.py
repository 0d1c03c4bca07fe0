"""The stages of a Dockerfile that fetch variants' wheels, where a target has some.

Of an index uv takes no variant that the building machine doesn't have. So the carried program takes the files out of
it, by name and hash, and uv gets them under plain names. A bundle's wheels take the place of these stages.
"""

from __future__ import annotations

from collections.abc import Iterator

from envspec.export.dockerfile_apt import MIRRORS_SECRET, apt
from envspec.export.dockerfile_steps import (
    LAYERS,
    NETRC_SECRET,
    SECRET,
    USE_NETRC,
    UV,
    WHEELS,
    at,
    bind,
    checked,
    index_arguments,
    run,
    with_index,
)
from envspec.export.plan import ENVIRONMENT, FETCH_VARIANTS, Plan
from envspec.export.quote import shell
from envspec.export.variant_fetch import fetch_words

_FETCHED = "fetched"


def variant_stages(plan: Plan) -> Iterator[str]:
    """Render the stage that fetches, and the one that has nothing but the wheels."""
    steps = [step for step in plan.pip if step.variants]
    if not steps:
        return
    python, program = f"{ENVIRONMENT}/bin/python", plan.carried_file(FETCH_VARIANTS)
    fetches = [
        with_index(step, fetch_words(step, python, at(program), f"{LAYERS}/{WHEELS}", UV, shell)) for step in steps
    ]
    yield "\n".join(
        [
            f"FROM python AS {_FETCHED}",
            run([MIRRORS_SECRET], apt(("ca-certificates",))),
            *index_arguments(steps),
            run([SECRET, NETRC_SECRET, bind(program)], [*checked(plan, [program]), USE_NETRC, *fetches]),
        ]
    )
    yield "\n".join(
        [
            f"# What --build-context {WHEELS}=FOLDER stands in for.",
            f"FROM scratch AS {WHEELS}",
            f"COPY --from={_FETCHED} {LAYERS}/{WHEELS} /",
        ]
    )
