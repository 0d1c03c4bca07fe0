"""The stage of a Dockerfile that builds the spec's own project. Its files are a build context of their own."""

from __future__ import annotations

from envspec.recipes.building import PRETENDED, project_install, project_wheel
from envspec.recipes.dockerfile_steps import (
    BYTECODE,
    COMPILED,
    SECRET,
    UV,
    bind,
    bytecode,
    checked,
    index_arguments,
    installs,
    python,
    run,
    uv_cache,
    uv_env,
    uv_mount,
)
from envspec.recipes.plan import ENVIRONMENT, OwnProject, Plan
from envspec.recipes.quote import shell

OWN = "/opt/own"
"""The prefix of the project in the stage that builds it."""
CONTEXT = "project"
"""The named build context with the project's files, and the stage that builders put it in the place of."""
VERSION = "PROJECT_VERSION"
"""The build argument with the project's version, where its build would ask git."""


def project_stage(plan: Plan, project: OwnProject) -> str:
    """Render the stage that builds the spec's project. Its files are copied: not every builder looks into mounts."""
    lines = [f"# Builds {project.name}, with what the lock has."]
    if project.compiled:
        lines.append("FROM compile AS own")
    else:
        lines += ["FROM ${BASE_IMAGE} AS own", "USER 0", f"ARG SOURCE_DATE_EPOCH={plan.epoch}"]
        if plan.explicit:
            lines.append(f"COPY --from=conda {ENVIRONMENT} {ENVIRONMENT}")
        lines += index_arguments(project.wheels)
        commands = [*([] if plan.explicit else python(plan)), *installs(project.wheels)]
        if commands:
            files = [step.file for step in project.wheels]
            mounts = [uv_mount(), uv_cache(), SECRET, *map(bind, files)]
            lines.append(run(mounts, [*checked(plan, files), uv_env(), *commands]))
    if project.versioned:
        lines.append(f'ARG {VERSION}=""')
    lines.append(f"COPY --from={CONTEXT} . /tmp/{CONTEXT}")
    missing = f"{project.name}: no pyproject.toml: build with --build-context {CONTEXT}=FOLDER"
    compiled = f"{COMPILED}/lib/python{plan.python}/site-packages" if plan.has_sources else ""
    commands = [
        f"if [ ! -f /tmp/{CONTEXT}/pyproject.toml ]; then echo {shell(missing)} >&2; exit 2; fi",
        *([f'if [ -n "${VERSION}" ]; then export {PRETENDED}="${VERSION}"; fi'] if project.versioned else []),
        *project_wheel(plan, f"{UV}/uv", f"/tmp/{CONTEXT}", compiled if project.compiled else ""),
        project_install(plan, f"{UV}/uv", f" --prefix {OWN}"),
        *bytecode(f"{OWN}/lib"),
    ]
    lines.append(run([uv_mount(), bind(BYTECODE)], [*checked(plan, [BYTECODE]), *commands]))
    return "\n".join(lines)
