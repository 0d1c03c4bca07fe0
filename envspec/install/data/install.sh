#!/bin/sh
# Installs what this bundle holds into a new folder, without network: sh install.sh PREFIX
# Wants a Python of the bundle's version (PYTHON=/path/to/it, if it isn't on PATH) with its module venv, or uv.
# Where there are conda packages, it wants micromamba, mamba or conda instead, which bring the Python.
set -eu

if [ $# -ne 1 ] || [ -z "$1" ]; then
    echo 'usage: sh install.sh PREFIX' >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=$1
version=$(sed -n 's/^ *"python": "\([0-9.]*\)",\{0,1\}$/\1/p' "$here/envspec/target.json")

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

# The first of the programs named that is there.
first() {
    for program in "$@"; do
        if command -v "$program" >/dev/null 2>&1; then
            command -v "$program"
            return
        fi
    done
}

if [ -e "$prefix" ] && [ -n "$(ls -A -- "$prefix")" ]; then
    fail "$prefix holds something already: give a new folder"
fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

if [ -f "$here/conda/explicit.txt" ]; then
    conda=$(first micromamba mamba conda)
    [ -n "$conda" ] || fail 'this bundle has conda packages: put micromamba, mamba or conda on PATH'
    list=$(mktemp)
    trap 'rm -f "$list"' EXIT
    # a list of files in this very place, each with its hash
    sed "s|^[^@#]|file://$here/conda/&|" "$here/conda/explicit.txt" >"$list"
    "$conda" create --yes --offline --prefix "$prefix" --file "$list"
else
    python=${PYTHON:-$(first "python$version" python3 python)}
    [ -n "$python" ] || fail "no Python $version found: PYTHON=/path/to/it sh install.sh PREFIX"
    found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$found" = "$version" ] || fail "$python is Python $found, and the lock is for $version: PYTHON=/path/to/it sh install.sh PREFIX"
    uv=$(first uv)
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --no-config --offline --python "$python" "$prefix"
    else
        "$python" -m venv "$prefix"
    fi
fi

if [ -f "$here/envspec/requirements.txt" ]; then
    uv=$(first uv)
    if [ -n "$uv" ]; then
        "$uv" pip install --no-config --offline --python "$prefix/bin/python" --no-index --find-links "$here/wheels" \
            --no-deps --require-hashes --requirements "$here/envspec/requirements.txt"
    else
        "$prefix/bin/python" -m pip install --isolated --disable-pip-version-check --no-cache-dir --no-index \
            --find-links "$here/wheels" --no-deps --require-hashes --requirement "$here/envspec/requirements.txt"
    fi
fi
echo "installed $prefix"
