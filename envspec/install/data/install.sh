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

if [ -e "$prefix" ] && [ ! -d "$prefix" ]; then
    fail "$prefix is a file: give a new folder"
fi
if [ -e "$prefix" ] && [ -n "$(ls -A -- "$prefix")" ]; then
    fail "$prefix holds something already: give a new folder"
fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

# An installer with a warm cache doesn't read the files that lie here.
sums=$(first sha256sum shasum)
case $sums in
    '') echo 'install.sh: neither sha256sum nor shasum found: the hashes are left to the installer' >&2 ;;
    *shasum) sums="$sums -a 256" ;;
esac
if [ -n "$sums" ]; then
    # shellcheck disable=SC2086 # shasum takes two words more
    found=$(cd -- "$here" && $sums -c SHA256SUMS 2>&1) || {
        printf '%s\n' "$found" | grep -v ': OK$' >&2
        fail 'files of this bundle are damaged or missing: copy it here again'
    }
fi

# What a failed or interrupted run made would stand in the way of the next one.
list=
mine=
existed=
[ ! -d "$prefix" ] || existed=yes
leave() {
    status=$?
    trap '' HUP INT TERM
    [ -z "$list" ] || rm -f -- "$list"
    if [ -n "$mine" ] && [ -n "$existed" ]; then
        (cd -- "$prefix" && rm -rf -- ..?* .[!.]* *)
    elif [ -n "$mine" ]; then
        rm -rf -- "$prefix"
    fi
    exit "$status"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -f "$here/conda/explicit.txt" ]; then
    conda=$(first micromamba mamba conda)
    [ -n "$conda" ] || fail 'this bundle has conda packages: put micromamba, mamba or conda on PATH'
    list=$(mktemp)
    # a list of files in this very place, each with its hash
    sed "s|^[^@#]|file://$here/conda/&|" "$here/conda/explicit.txt" >"$list"
    mine=yes
    "$conda" create --yes --offline --prefix "$prefix" --file "$list"
else
    python=${PYTHON:-$(first "python$version" python3 python)}
    [ -n "$python" ] || fail "no Python $version found: PYTHON=/path/to/it sh install.sh PREFIX"
    found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$found" = "$version" ] || fail "$python is Python $found, and the lock is for $version: PYTHON=/path/to/it sh install.sh PREFIX"
    uv=$(first uv)
    mine=yes
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --no-config --offline --python "$python" "$prefix"
    else
        "$python" -m venv "$prefix"
    fi
fi

if [ -f "$here/requirements.txt" ]; then
    uv=$(first uv)
    if [ -n "$uv" ]; then
        "$uv" pip install --no-config --offline --python "$prefix/bin/python" --no-index --find-links "$here/wheels" \
            --no-deps --require-hashes --requirements "$here/requirements.txt"
    else
        "$prefix/bin/python" -m pip install --isolated --disable-pip-version-check --no-cache-dir --no-index \
            --find-links "$here/wheels" --no-deps --require-hashes --requirement "$here/requirements.txt"
    fi
fi
mine=
echo "installed $prefix"
