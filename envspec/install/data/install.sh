#!/bin/sh
# Installs what this bundle holds into a new folder, without network:
#   sh install.sh [--expect sha256:DIGEST] [--with DIR]... PREFIX
# --expect refuses another bundle: DIGEST is that of SHA256SUMS, as `envspec bundle` printed it. This script may be
# forged too, so where that matters, take the digest by hand first, in this folder. The last command names what is here
# and isn't the bundle's (the files of a base have a list of their own, BASE):
#   sha256sum SHA256SUMS && sha256sum -c --quiet SHA256SUMS
#   find . ! -type d -exec ls -dq {} + | cut -c3- | LC_ALL=C grep -vxF -e SHA256SUMS -e "$(cut -c67- SHA256SUMS)"
# --with names the folder of an earlier bundle, where this one was made with --since.
# The Python is the bundle's own, below PREFIX/.python. Where the bundle has none, or PYTHON=/path/to/another is given,
# it is one of the bundle's version, with its module venv or with uv.
# Where there are conda packages, it wants micromamba, mamba or conda instead, which bring the Python.
set -eu

usage() {
    echo 'usage: sh install.sh [--expect sha256:DIGEST] [--with DIR]... PREFIX' >&2
    exit 2
}

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

# The folders of a list that don't depend on where this is called from: an empty one is that folder, too.
absolute() {
    rest=$1:
    list=
    while [ -n "$rest" ]; do
        case $rest in /*) list=$list${list:+:}${rest%%:*} ;; esac
        rest=${rest#*:}
    done
    printf '%s\n' "$list"
}
PATH=$(absolute "${PATH:-}")
PATH=${PATH:-/usr/bin:/bin}
[ -z "${LD_LIBRARY_PATH:-}" ] || LD_LIBRARY_PATH=$(absolute "$LD_LIBRARY_PATH")

# The absolute path of a folder. What names folders line by line can't hold a path of two.
whole() {
    path=$(CDPATH='' cd -- "$1" 2>/dev/null && pwd) || return 1
    case $path in
        *'
'*) return 1 ;;
    esac
    printf '%s\n' "$path"
}

expected=
here=$(whole "$(dirname -- "$0")") || fail 'the path of its folder has a line break: rename it'
# the folders with packages, a line each
places=$here
while [ $# -gt 1 ]; do
    case $1 in
        --expect) expected=$2 ;;
        --with)
            old=$(whole "$2") || fail "$2 is no folder: give --with the folder of the earlier bundle"
            places=$places'
'$old
            ;;
        *) usage ;;
    esac
    shift 2
done
if [ $# -ne 1 ]; then usage; fi
case $1 in '' | -*) usage ;; esac
prefix=$1

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
case ${PYTHON:-} in [!/]*/*) PYTHON=$PWD/$PYTHON ;; esac

# What a failed or interrupted run made would stand in the way of the next one.
work=
mine=
existed=
[ ! -d "$prefix" ] || existed=yes
leave() {
    status=$?
    trap '' HUP INT TERM
    cd /
    [ -z "$work" ] || rm -rf -- "$work"
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

# Programs start in a folder of their own, and no variable brings Python code: the folder that this is called from
# may have modules and settings that it would take up.
work=$(mktemp -d)
work=$(CDPATH='' cd -- "$work" && pwd)
cd -- "$work"
for name in $(set | sed -n -e 's/^\(PYTHON[A-Z0-9_][A-Z0-9_]*\)=.*/\1/p' -e 's/^\(PIP_[A-Z0-9_]*\)=.*/\1/p' \
    -e 's/^\(UV_[A-Z0-9_]*\)=.*/\1/p'); do
    # nor does one leave a package out, or lead it elsewhere: uv's cache and its links may be the user's own
    case $name in UV_CACHE_DIR | UV_NO_CACHE | UV_LINK_MODE | UV_CONCURRENT_*) ;; *) unset "$name" ;; esac
done
export PYTHONNOUSERSITE=1 PIP_CONFIG_FILE=/dev/null

sums=$(first sha256sum shasum)
case $sums in
    '') fail 'neither sha256sum nor shasum found: put one of them on PATH' ;;
    *shasum) sums="$sums -a 256" ;;
esac
digest() {
    # shellcheck disable=SC2086 # shasum takes two words more
    $sums <"$1" | sed 's/ .*//'
}
plain() {
    [ -f "$here/$1" ] && [ ! -L "$here/$1" ]
}
plain SHA256SUMS || fail "$here has no SHA256SUMS: copy the bundle here again"
if [ -n "$expected" ] && [ "sha256:$(digest "$here/SHA256SUMS")" != "$expected" ]; then
    fail "this is another bundle: its digest is sha256:$(digest "$here/SHA256SUMS")"
fi

# The folder holds what the lists name, plain files and the folders above them, and nothing else: what is too many is
# refused before it is read, since reading a pipe waits, and before anything runs.
listed() {
    echo ./SHA256SUMS
    sed 's|^[0-9a-f]*  |./|' "$here/SHA256SUMS"
    # the base's files have a list of their own; where the bundle is installed into an image, they aren't here
    if plain BASE && grep -q -x -e '[0-9a-f]*  BASE' "$here/SHA256SUMS"; then
        sed 's|^[0-9a-f]*  |./|' "$here/BASE"
    fi
}
listed >names
sed -n -e ':up' -e 's|/[^/]*$||p' -e 't up' names >folders
cat names folders >either
# $1 with what `find $3...` names in the bundle's folder and the file $2 doesn't
unlisted() {
    why=$1 known=$2
    shift 2
    (cd -- "$here" && LC_ALL=C find . "$@") >seen || fail "$here can't be read"
    # 1: nothing else
    LC_ALL=C grep -v -x -F -f "$known" seen >extra || [ $? -eq 1 ]
    if [ -s extra ]; then
        LC_ALL=C sed -e 's|^\./||' -e 's/[^[:print:]]/?/g' -e "s/\$/ $why/" -e 10q extra >&2
        fail "$here has more in it than the bundle: remove that, or unpack the bundle into a folder of its own"
    fi
}
# first what lies side by side: in a home, the others have no end
unlisted "isn't of this bundle" either ! -name . -prune
unlisted "isn't a plain file" /dev/null ! -type f ! -type d
# a name of two lines would pass for two names
unlisted "isn't of this bundle" /dev/null -name '*
*'
unlisted "isn't of this bundle" names -type f
unlisted "isn't of this bundle" folders -type d
# An installer with a warm cache doesn't read the files that lie here.
lists=SHA256SUMS
[ ! -d "$here/base" ] || lists='SHA256SUMS BASE'
# shellcheck disable=SC2086
found=$(cd -- "$here" && $sums -c $lists 2>&1) || {
    printf '%s\n' "$found" | grep -v ': OK$' >&2
    fail 'files of this bundle are damaged or missing: copy it here again'
}
version=$(sed -n 's/^  "platform": "[^"]*", "python": "\([0-9.]*\)".*/\1/p' "$here/envspec/target.json")

needed=/dev/null
[ ! -f "$here/NEEDED" ] || needed=$here/NEEDED

# The sha256 of a package's file, as this bundle has it.
hash_of() {
    cat "$here/SHA256SUMS" "$needed" | while read -r hash path; do
        [ "$path" != "$1" ] || printf '%s\n' "$hash"
    done
}

# The folder that has a package's file, of this hash: this one, or one that --with names.
place_of() {
    printf '%s\n' "$places" | while IFS= read -r place; do
        if [ -f "$place/$2" ] && { [ "$place" = "$here" ] || [ "$(digest "$place/$2")" = "$1" ]; }; then
            printf '%s\n' "$place"
            break
        fi
    done
}
if [ -f "$here/NEEDED" ]; then
    missing=$(while read -r hash path; do
        [ -n "$(place_of "$hash" "$path")" ] || printf '  %s\n' "$path"
    done <"$here/NEEDED")
    if [ -n "$missing" ]; then
        printf '%s\n' "$missing" >&2
        fail 'these files are in an earlier bundle: name its folder, --with DIR'
    fi
fi

if [ -f "$here/conda/explicit.txt" ]; then
    conda=$(first micromamba mamba conda)
    [ -n "$conda" ] || fail 'this bundle has conda packages: put micromamba, mamba or conda on PATH'
    # a list of files in this very place, each with its hash
    while IFS= read -r line; do
        case $line in
            [@#]*) printf '%s\n' "$line" ;;
            *)
                path=conda/${line%%#*}
                place=$(place_of "$(hash_of "$path")" "$path")
                [ -n "$place" ] || fail "$path isn't of this bundle"
                printf 'file://%s/conda/%s\n' "$place" "$line"
                ;;
        esac
    done <"$here/conda/explicit.txt" >explicit.txt
    mine=yes
    "$conda" create --yes --offline --prefix "$prefix" --file "$work/explicit.txt"
else
    build=$(cat "$here/SHA256SUMS" "$needed" | sed -n 's/^[0-9a-f]*  \(python\/[^\/]*\.tar\.gz\)$/\1/p')
    if [ -z "${PYTHON:-}" ] && [ -n "$build" ]; then
        mine=yes
        mkdir -p -- "$prefix/.python"
        tar -xzf "$(place_of "$(hash_of "$build")" "$build")/$build" -C "$prefix/.python" --strip-components=1
        # what it was built with and for; a path with other characters would need quotes there
        case $prefix in *[!A-Za-z0-9._/-]*) at=/install ;; *) at=$prefix/.python ;; esac
        for text in "$prefix/.python/lib/python$version"/_sysconfigdata_*.py; do
            [ -f "$text" ] || continue
            sed -e 's/clang++/c++/g' -e 's/clang/cc/g' -e "s|'/install|'$at|g" "$text" >"$text.new"
            mv -- "$text.new" "$text"
        done
        PYTHON=$prefix/.python/bin/python$version
    fi
    seeing=
    if [ -f "$here/ON_BASE" ]; then
        : "${PYTHON:=$(sed -n 1p "$here/ON_BASE")}"
        [ -x "$PYTHON" ] ||
            fail "these packages come on top of $PYTHON, which isn't here: install where the base is, or in its image"
        # of a virtual environment, another one sees nothing by itself
        [ -f "${PYTHON%/bin/*}/pyvenv.cfg" ] || seeing=--system-site-packages
    fi
    python=${PYTHON:-$(first "python$version" python3 python)}
    [ -n "$python" ] || fail "no Python $version found: PYTHON=/path/to/it sh install.sh PREFIX"
    found=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$found" = "$version" ] ||
        fail "$python is Python $found, and the lock is for $version: PYTHON=/path/to/it sh install.sh PREFIX"
    uv=$(first uv)
    mine=yes
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --no-config --offline --allow-existing $seeing --python "$python" "$prefix"
    else
        "$python" -I -m venv $seeing "$prefix"
    fi
    if [ -f "$here/ON_BASE" ]; then
        # envspec's own name for it (`envspec.install.on_base`)
        sed -e 1d -e "${seeing:+/^import/d}" "$here/ON_BASE" \
            >"$prefix/lib/python$version/site-packages/_envspec_base.pth"
    fi
fi

if [ -f "$here/requirements.txt" ]; then
    # what leads out of the environment, or unpacks to far more than it may, is refused before anything unpacks it
    limits=$(cat "$here/LIMITS")
    cat "$here/SHA256SUMS" "$needed" | while read -r hash path; do
        case $path in
            wheels/* | project/*)
                # shellcheck disable=SC2086 # three numbers
                "$prefix/bin/python" -I "$here/archive_entries.py" $limits "$(place_of "$hash" "$path")/$path" || exit 2
                ;;
        esac
    done || fail "don't install it: such a file is hostile or broken"
    # a bundle may have none of its own; of an earlier one only what this one names, whatever else lies there
    set -- --no-index
    [ ! -d "$here/wheels" ] || set -- "$@" --find-links "$here/wheels"
    if [ -f "$here/NEEDED" ]; then
        mkdir wheels
        while read -r hash path; do
            case $path in wheels/*) ln -s -- "$(place_of "$hash" "$path")/$path" wheels ;; esac
        done <"$here/NEEDED"
        set -- "$@" --find-links "$work/wheels"
    fi
    uv=$(first uv)
    # of a package that the spec takes against its Requires-Python, which pip heeds and uv doesn't
    past=
    for list in "$here/requirements.txt" "$here"/sources/*.txt "$here"/builds/*.txt; do
        if grep -qs -e '^#.* --ignore-requires-python' "$list"; then past=--ignore-requires-python; fi
    done
    install() {
        if [ -n "$uv" ]; then
            "$uv" pip install --no-config --offline --python "$prefix/bin/python" --no-deps "$@"
        else
            # shellcheck disable=SC2086 # no option, or one
            "$prefix/bin/python" -I -m pip install --isolated --disable-pip-version-check --no-cache-dir \
                --no-deps $past "$@"
        fi
    }
    # a target may have nothing but what is compiled
    if grep -q '^[^#]' "$here/requirements.txt"; then
        install "$@" --require-hashes -r "$here/requirements.txt"
    fi
    # what overwrites files of others, in its order: installers do all of one list side by side, or by name
    if [ -n "$uv" ]; then again=--reinstall; else again=--force-reinstall; fi
    for list in "$here"/later/*.txt; do
        [ ! -f "$list" ] || install "$@" "$again" --require-hashes -r "$list"
    done
    if [ -d "$here/sources" ]; then
        # each with the wheels that the lock has for its build, and no others. pip takes no hashes for what a build
        # declares as a range: these files' were compared above
        for list in "$here"/sources/*.txt; do
            wheels=${list%.txt}
            if [ -n "$uv" ]; then
                install "$@" --build-constraints "$wheels.built-with" --require-build-hashes --require-hashes -r "$list"
            elif "$prefix/bin/python" -I -m pip install --help | grep -q -e '--build-constraint'; then
                install "$@" --build-constraint "$wheels.versions" --require-hashes -r "$list"
            else
                # an older pip: its builds heed the variable, which takes no blanks, and it doesn't itself
                cat "$wheels.versions" >versions
                (PIP_CONSTRAINT=versions && export PIP_CONSTRAINT && install "$@" --require-hashes -r "$list")
            fi
        done
    fi
    if [ -d "$here/builds" ]; then
        # against the environment, in their order; a cache has wheels that were built against another one
        (
            # shellcheck source=/dev/null
            . "$here/builds/variables.sh"
            export PATH="$prefix/bin:$PATH" UV_NO_CACHE=1 PYTHONNOUSERSITE=1 PYTHONPATH=
            for list in "$here"/builds/*.txt; do
                install "$@" --no-build-isolation --require-hashes -r "$list"
            done
        )
    fi
    for wheel in "$here"/project/*.whl; do
        [ -f "$wheel" ] || continue
        name=${wheel##*/}
        # by name: of a path, installers record that it came from there
        install --no-index --find-links "$here/project" "${name%%-*}"
    done
fi
mine=
echo "installed $prefix"
