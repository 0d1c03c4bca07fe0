#!/bin/sh
# Build locked sources, which see the lock's packages, and install them.
#
#     compile.sh OPTION...          as install.sh has them
#
# uv builds a package in an environment with what it declares. Extensions of torch need torch and more without declaring
# it, so they find the lock's packages and programs beside.
set -eu

# shellcheck source=SCRIPTDIR/compilers.sh
. "${0%/*}/compilers.sh"
export PATH="/opt/env/bin:$PATH" PYTHONPATH="$packages"
exec sh "${0%/*}/install.sh" source "$@"
