#!/bin/sh
# Install locked wheels with uv, each by its hash and without dependencies.
#
#     install.sh LAYER [--beside] [--torch-backend NAME] OPTION...
#
# LAYER             a folder of /layers, or "-" for the environment itself
# --beside          the other indexes stand beside PyPI
# --torch-backend   uv's name for the PyTorch index; a mirror of it is in PYTORCH_INDEX
# OPTION            of `uv pip install`
set -eu

# shellcheck source=SCRIPTDIR/uv.sh
. "${0%/*}/uv.sh"
layer=$1 && shift
# shellcheck source=SCRIPTDIR/pytorch.sh
. "${0%/*}/pytorch.sh"
# Builders without the context of an index mount what stands in for it.
for folder in /run/index-*; do
    if [ -x "$folder/uv" ]; then
        name=${folder#/run/index-}
        echo "the files of the index $name: build with --build-context index-$name=FOLDER" >&2
        exit 2
    fi
done
# What was built for another torch or GPU has the same name.
if [ "$layer" = source ]; then export UV_NO_CACHE=1; fi
if [ "$layer" != - ]; then set -- --prefix "/layers/$layer/opt/env" "$@"; fi

# What a build needs is never built itself.
"$uv" pip install --quiet --python "${PYTHON:-/opt/env}" --no-deps --only-binary :all: "$@"
if [ "$layer" != - ]; then sh "${0%/*}/finish.sh" "$layer"; fi
