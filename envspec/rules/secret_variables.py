"""Variables of a spec's images that hold a secret: every user of the image, or of a recipe for it, can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.base.errors import InputError, together
from envspec.base.finding import Finding
from envspec.base.redact import is_secret, redact_command
from envspec.packages.requirement import canonical_name
from envspec.rules.case import apply_acceptances, hint_to_keep
from envspec.spec.model import Spec

CODE = "secret-variable"


def secret_variables(spec: Spec) -> Iterator[Finding]:
    """Yield the variables of `[image] env` and `build-env`, and the arguments of `[kubernetes] program`, that hold a
    secret by their names or values."""
    for table, variables in (("env", spec.image.env), ("build-env", spec.image.build_env)):
        for name, value in variables.items():
            if is_secret(name, value):
                message = f"image.{table}: {name} may hold a secret, and anyone with the image or a recipe can read it"
                ways = f"`docker run -e {name}`, [slurm] environment or [kubernetes] secret"
                remedy = f"leave it out, and pass it at run time by {ways}"
                place = spec.places.get(f"image.{table}.{name}")
                yield Finding("warning", CODE, message, place, remedy, package=canonical_name(name))
    program = " ".join(spec.kubernetes.program)
    if redact_command(program) != program:
        place = spec.places.get("kubernetes.program")
        message = "kubernetes.program has a secret in its arguments, and anyone with the job's file can read it"
        yield Finding("warning", CODE, message, place, "pass it by [kubernetes] secret", package="program")


def refuse_secret_variables(spec: Spec, targets: Iterable[str]) -> None:
    """Raise InputError for secret variables that the spec doesn't accept for one of these targets: no recipe and no
    image is made with them."""
    findings = tuple(secret_variables(spec))
    judged = (finding for name in targets for finding in apply_acceptances(findings, spec.terms_of(name).accept))
    errors = [
        InputError(finding.text, hint=f"{finding.remedy}; {hint_to_keep(finding)}", place=finding.place)
        for finding in dict.fromkeys(judged)
        if finding.severity != "info"
    ]
    if errors:
        raise together(errors)
