"""The stage of a Dockerfile that builds the spec's own project. Its files are a build context of their own."""

from __future__ import annotations

from envspec.export.building import PRETENDED, project_install, project_wheel
from envspec.export.dockerfile_steps import (
    SCRATCH,
    UV,
    copy_files,
    finish,
    index_arguments,
    install,
    prefix,
    run,
    uv_mounts,
)
from envspec.export.plan import OwnProject, Plan
from envspec.export.quote import shell

CONTEXT = "project"
"""The named build context with the project's files, and the stage that builders put it in the place of."""
VERSION = "PROJECT_VERSION"
"""The build argument with the project's version, where its build would ask git."""


def project_stage(plan: Plan, project: OwnProject) -> str:
    """Render the stage that builds the spec's project. Its files are copied: not every builder looks into mounts."""
    lines = [
        f"# Builds {project.name}, with what the lock has.",
        f"FROM {'compile' if project.compiled else 'python'} AS own",
        f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
        *index_arguments(project.wheels),
    ]
    if project.wheels:
        lines.append(copy_files(*(file for step in project.wheels for file in step.files)))
        lines.append(run(uv_mounts(project.wheels), map(install, project.wheels)))
    if project.versioned:
        lines.append(f'ARG {VERSION}=""')
    lines.append(f"COPY --from={CONTEXT} . {SCRATCH}/{CONTEXT}")
    missing = f"{project.name}: no pyproject.toml: build with --build-context {CONTEXT}=FOLDER"
    compiled = f"{prefix('source')}/lib/python{plan.python}/site-packages" if plan.has_sources else ""
    commands = [
        f"if [ ! -f {SCRATCH}/{CONTEXT}/pyproject.toml ]; then echo {shell(missing)} >&2; exit 2; fi",
        *([f'if [ -n "${VERSION}" ]; then export {PRETENDED}="${VERSION}"; fi'] if project.versioned else []),
        *project_wheel(plan, UV, f"{SCRATCH}/{CONTEXT}", SCRATCH, compiled if project.compiled else ""),
        project_install(plan, UV, SCRATCH, f" --prefix {prefix('project')}"),
        *finish("project"),
    ]
    lines.append(run([], commands))
    return "\n".join(lines)
