#!/bin/sh
# Build the wheel of the spec's project from /tmp/project, with what the lock has and without a network, and install it.
#
#     project.sh NAME [compiled]          compiled: with a compiler, beside the layer of compiled packages
#
# PROJECT_VERSION is its version, where its build would ask git.
set -eu

if [ ! -f /tmp/project/pyproject.toml ]; then
    echo "$1: no pyproject.toml: build with --build-context project=FOLDER" >&2
    exit 2
fi
if [ -n "${PROJECT_VERSION:-}" ]; then export SETUPTOOLS_SCM_PRETEND_VERSION="$PROJECT_VERSION"; fi
# shellcheck source=SCRIPTDIR/uv.sh
. "${0%/*}/uv.sh"
PYTHONPATH=''
if [ "${2:-}" = compiled ]; then
    # shellcheck source=SCRIPTDIR/compilers.sh
    . "${0%/*}/compilers.sh"
    if [ -d "/layers/source$packages" ]; then PYTHONPATH=/layers/source$packages; fi
fi
export PATH="/opt/env/bin:$PATH" PYTHONNOUSERSITE=1 PYTHONPATH UV_NO_CACHE=1

# setuptools would pack what an earlier build left in the folder
made=/tmp/project-build
mkdir "$made"
printf '[build]\nbuild_base = %s/base\n' "$made" >"$made/setuptools.cfg"
export DIST_EXTRA_CONFIG="$made/setuptools.cfg"
"$uv" build --quiet --wheel --no-build-isolation --no-config --offline --python /opt/env \
    --out-dir "$made/wheels" /tmp/project
# By name: of a path, uv would record that it came from there.
"$uv" pip install --quiet --no-config --no-deps --no-index --offline --find-links "$made/wheels" \
    --python /opt/env --prefix /layers/project/opt/env "$1"
sh "${0%/*}/finish.sh" project
