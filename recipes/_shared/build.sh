#!/bin/sh
# The steps of a build of an image, by Dockerfiles and Apptainer definitions: build.sh STEP ARGUMENT...
#
# What a build works with lies in /layers. A Dockerfile's layer is a folder there, made like an image's root; "-" stands
# for the image itself. The builder's own settings come as secrets and build arguments, under Apptainer from the folder
# bound at /mnt, which SETTINGS names.
set -eu

here=${0%/*}
uv=${UV:-/layers/uv}
scratch=${TMPDIR:-/tmp}
requirements=${REQUIREMENTS:-/layers}
bound=${SETTINGS:-}
unset SETTINGS REQUIREMENTS # which a build of a source could mean otherwise
began=$(date +%s)
export UV_LINK_MODE=copy UV_PYTHON_INSTALL_DIR=/opt/python SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-315532800}"

if [ -z "$bound" ]; then
    # mirrors: in a folder that every base has, as buildah leaves those that it makes for a mount
    mirrors=/run/apt-mirrors netrc=/run/secrets/netrc settings=/run/secrets/uv wheels=/run/wheels project=/tmp/project
    apt='apt-get -qq'
    export UV_CACHE_DIR=/var/cache/uv
else
    mirrors=$bound/apt-mirrors netrc=$bound/netrc settings=$bound/uv.toml wheels=$bound/wheels project=/srv
    apt='apt-get -qq -o APT::Sandbox::User=root' # in a user namespace apt can't be its own user
    if [ -d "$bound/cache" ]; then
        export UV_CACHE_DIR="$bound/cache/uv" CONDA_PKGS_DIRS="$bound/cache/conda"
    else
        export UV_NO_CACHE=1
    fi
    if [ ! -d "$wheels" ]; then wheels=/layers/wheels; fi
    if [ -s "$bound/pytorch-index" ]; then PYTORCH_INDEX=$(cat "$bound/pytorch-index"); fi
    if [ -s "$bound/conda-channel-host" ]; then CONDA_CHANNEL_HOST=$(cat "$bound/conda-channel-host"); fi
    if [ -s "$bound/project-version" ]; then PROJECT_VERSION=$(cat "$bound/project-version"); fi
fi
if [ -s "$settings" ]; then export UV_CONFIG_FILE="$settings"; fi

fail() {
    echo "$1" >&2
    exit 2
}

# Give files one time, whenever they are built: the first that all archives can write. In a layer all files get it, in
# the image those that were written since this script began, mounts aside. A SIF has times of its own.
set_times() {
    if [ -n "$bound" ]; then return; fi
    if [ "$1" != - ]; then
        find "/layers/$1" -exec touch -h -d @315532800 {} +
    else
        find / -xdev \( -type l -o -writable \) -newermt "@$began" -exec touch -h -d @315532800 {} +
    fi
}

# apt [--as-of DAY] [--headers 3.12] PACKAGE...: install Debian packages, and leave nothing that differs from build to
# build.
#
# --as-of     DAY is a snapshot of Debian ("20261101T000000Z"); without it, the newest packages
# --headers   the headers of a version of Python too, where the base brings it: kernels are compiled with them
install_debian() {
    day='' headers=''
    while :; do
        case ${1:-} in
            --as-of) day=$2 && shift 2 ;;
            --headers) headers=$2 && shift 2 ;;
            *) break ;;
        esac
    done
    set_archives
    export DEBIAN_FRONTEND=noninteractive
    $apt update
    $apt install -y --no-install-recommends "$@"
    if [ -n "$headers" ] && [ -x "/usr/bin/python$headers" ]; then
        $apt install -y --no-install-recommends "libpython$headers-dev"
    fi
    # Not in a cache that is mounted: buildah 1.28 keeps its lock to the end of the build, and two builds wait for each
    # other.
    rm -rf "$copy" /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
    # What differs from build to build, and host keys that Debian's package makes.
    rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_*
    find /var/log -type f -delete
    set_times -
}

# Have apt use a site's mirrors, or Debian as it was on a day.
#
# mirrors   a file of words NAME=URL: an archive by its path on public mirrors, and where it is here
# day       of a snapshot of Debian, as its archive names it ("20261101T000000Z"), or empty
#
# apt reads a copy of its configuration in which the sources name others; the image keeps its base's own. The archive of
# snapshots is where the base's own sources say that they were taken from, as those of Debian's images do, or where the
# word debian-snapshot says: the folder that has debian/20261101T000000Z.
set_archives() {
    copy=/var/lib/apt/site # in a folder that installing changes anyway
    if [ -n "$day" ] || [ -s "$mirrors" ]; then
        cp -a /etc/apt "$copy"
        echo "Dir::Etc \"$copy\";" >"$copy/own.conf"
        export APT_CONFIG="$copy/own.conf"
    fi
    if [ -n "$day" ]; then
        archive=''
        if [ -s "$mirrors" ]; then archive=$(sed -n 's,.*debian-snapshot=\([^ ]*\).*,\1,p' "$mirrors"); fi
        if [ -z "$archive" ]; then
            dated='\,/debian\(-security\)\?/[0-9]*T[0-9]*Z,'
            archive=$(on_sources sed -n "$dated"'{s,.*\(https\?://[^ ]*\)/debian.*,\1,p;q}')
        fi
        if [ -z "$archive" ]; then
            fail "the base doesn't say where snapshots of Debian are: give debian-snapshot=URL in apt-mirrors"
        fi
        on_sources sed -i "s,https\?://[^ ]*/\(debian\|debian-security\)/\?\( \|\$\),$archive/\1/$day/\2,"
        echo 'Acquire::Check-Valid-Until "false";' >>"$copy/own.conf"
    fi
    if [ -s "$mirrors" ]; then
        words=$(cat "$mirrors")
        for word in $words; do
            # a comma is in no URL that envspec takes
            on_sources sed -i "s,https\?://[^/ ]*/${word%%=*}/\?\( \|\$\),${word#*=}\1,"
        done
    fi
}

# Run a command on every file of sources.
on_sources() {
    find "$copy" \( -name '*.list' -o -name '*.sources' \) -exec "$@" {} +
}

# python LAYER PYTHON [PREFERENCE]: make the virtual environment at its own path, for scripts name the Python that
# installs them. A layer gets a copy; a base's own Python stays where it is.
#
# PYTHON       uv's table of the build that the lock names, beside this script, whose hash uv checks; or a version of a
#              Python that is there
# PREFERENCE   uv's word for the Pythons that it takes, where the lock names no build
make_python() {
    version=$2
    export UV_PYTHON_PREFERENCE="${3:-only-managed}"
    case $2 in
        *.json)
            export UV_PYTHON_DOWNLOADS_JSON_URL="$here/$2"
            version=$(sed -n 's/^  .cpython-\([0-9.]*\)-.*/\1/p' "$here/$2")
            ;;
    esac
    "$uv" venv --quiet --python "$version" /opt/env
    if [ "$1" = - ]; then return; fi
    mkdir -p "/layers/$1/opt"
    for folder in /opt/env /opt/python; do
        if [ -d "$folder" ]; then cp -a "$folder" "/layers/$1/opt"; fi
    done
    set_times "$1"
}

# conda LAYER FILE: make conda's environment from the files that the lock names.
make_conda() {
    if [ -z "${CONDA_CHANNEL_HOST:-}" ]; then
        way=${bound:+in conda-channel-host, by --bind FOLDER:$bound}
        fail "give the host of your channels ${way:-with --build-arg CONDA_CHANNEL_HOST=}"
    fi
    use_netrc
    sed "s|  # .*||; s|[$]{CONDA_CHANNEL_HOST}|$CONDA_CHANNEL_HOST|" "$2" >"$scratch/explicit.txt"
    root=/opt/conda rc=''
    if [ "$1" = - ]; then root=$scratch/conda rc=--no-rc; fi
    if [ -s "$bound/condarc" ]; then rc="--rc-file $bound/condarc"; fi
    # shellcheck disable=SC2086 # no word or two
    MAMBA_ALWAYS_COPY=true "${MICROMAMBA:-micromamba}" create --yes --quiet $rc --root-prefix "$root" \
        --prefix /opt/env --file "$scratch/explicit.txt"
    if [ "$1" = - ]; then return; fi
    # conda's own bytecode holds the time of each file
    find /opt/env -name '*.pyc' -delete
    /opt/env/bin/python -ISB "$here/bytecode.py" /opt/env/lib
    # the file by which conda tools know an environment; what stands in it are times
    : >/opt/env/conda-meta/history
    mkdir -p "/layers/$1/opt"
    mv /opt/env "/layers/$1/opt"
    set_times "$1"
}

use_netrc() {
    if [ -s "$netrc" ]; then export NETRC="$netrc"; fi
}

# Put the options for an index into `index`, a mirror in the place of the PyTorch index, and the number of the words
# that say so into `used`. No word of an option has a space.
read_index() {
    index='' used=0 option=--default-index
    if [ "${1:-}" = --beside ]; then
        option=--index used=1
        shift
    fi
    if [ "${1:-}" = --torch-backend ]; then
        used=$((used + 2))
        index="--torch-backend $2"
        if [ -n "${PYTORCH_INDEX:-}" ]; then index="$option $PYTORCH_INDEX"; fi
    fi
    use_netrc
}

# fetch [--beside] [--torch-backend NAME] OPTION... -- FILE SHA256 SIZE [FILE SHA256 SIZE]...: fetch wheels of variants
# (PEP 825) by their names at an index.
#
# OPTION   of uv, for the index: no word of one has a space
fetch_variants() {
    if [ "$wheels" = "$bound/wheels" ]; then return; fi # a bundle's
    read_index "$@"
    shift "$used"
    while [ "$1" != -- ]; do
        index="$index $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # words without spaces
    set -f && /opt/env/bin/python -I "$here/fetch_variants.py" /layers/wheels "$@" -- "$uv" $index
}

# install LAYER FILES [--beside] [--torch-backend NAME] [--git] [--variants] OPTION...: install locked wheels with uv,
# each by its hash and without dependencies.
#
# FILES             the name of the requirements of all targets, and before @ of those of some: a source is built, with
#                   the wheels of its built-with=…
# --beside          the other indexes stand beside PyPI
# --torch-backend   uv's name for the PyTorch index; a mirror of it is in PYTORCH_INDEX
# --git             the requirements are commits, which have no other hash
# --variants        take wheels that were fetched
# OPTION            of `uv pip install`
install_wheels() {
    layer=$1 files=$2
    shift 2
    read_index "$@"
    shift "$used"
    # shellcheck disable=SC2086 # words without spaces
    set -- $index "$@"
    hashes=--require-hashes
    for word in "$@"; do
        shift
        case $word in
            --git) hashes='' ;;
            --variants) set -- "$@" --find-links "$wheels" ;;
            *) set -- "$@" "$word" ;;
        esac
    done
    # Builders without the context of an index mount what stands in for it.
    for folder in /run/index-*; do
        if [ -x "$folder/uv" ]; then
            name=${folder#/run/index-}
            fail "the files of the index $name: build with --build-context index-$name=FOLDER"
        fi
    done
    for file in "$requirements/$files.txt" "$requirements/$files"@*.txt; do
        if [ ! -f "$file" ]; then continue; fi
        set -- "$@" --requirements "$file"
        case $files in source*)
            # What was built for another torch or GPU has the same name.
            export UV_NO_CACHE=1
            names=$(sed -n 's/^\([A-Za-z0-9][A-Za-z0-9._-]*\).*/\1/p' "$file")
            for name in $names; do set -- "$@" --no-binary "$name"; done
            ;;
        esac
    done
    built=built-with${files#source}
    for file in "$here/$built.txt" "$here/$built"@*.txt; do
        if [ -f "$file" ]; then set -- "$@" --build-constraints "$file" --require-build-hashes; fi
    done
    if [ "$layer" != - ]; then set -- --prefix "/layers/$layer/opt/env" "$@"; fi
    # What a build needs is never built itself.
    "$uv" pip install --quiet --python "${PYTHON:-/opt/env}" --no-deps $hashes --only-binary :all: "$@"
    if [ "$layer" != - ]; then finish "$layer"; else set_times -; fi
}

# Make a layer's bytecode, and give its files their time. Without site and without writing: what Python loads by itself
# it would compile by itself, with a time.
finish() {
    /opt/env/bin/python -ISB "$here/bytecode.py" "/layers/$1/opt/env/lib" /opt/env/lib
    set_times "$1"
}

# compile LAYER FILES OPTION...: build locked sources, which see the lock's packages, and install them.
#
# uv builds a package in an environment with what it declares. Extensions of torch need torch and more without declaring
# it, so they find the lock's packages and programs beside.
compile_sources() {
    set_compilers
    export PATH="/opt/env/bin:$PATH" PYTHONPATH="$packages"
    install_wheels "$@"
}

set_compilers() {
    if [ -z "${MAX_JOBS:-}" ]; then
        # As many compilers as fit: CUDA's takes up to 4 GB.
        MAX_JOBS=$(awk -v n="$(nproc)" '/MemTotal/ {j = int($2 / 4194304) + 1; print j < n ? j : n}' /proc/meminfo)
        export MAX_JOBS
    fi
    packages=$(/opt/env/bin/python -IB -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
}

# project LAYER NAME [compiled] [--exclude=PATH]...: build the wheel of the spec's project with what the lock has and
# without a network, and install it.
#
# compiled    with a compiler, beside the layer of compiled packages
# --exclude   what of a folder that can't be written stays outside
#
# PROJECT_VERSION is its version, where its build would ask git.
build_project() {
    layer=$1 name=$2 beside=''
    shift 2
    if [ ! -f "$project/pyproject.toml" ]; then
        way=${bound:+--bind FOLDER:$project:ro}
        fail "$name: no pyproject.toml: build with ${way:---build-context project=FOLDER}"
    fi
    if [ -n "${PROJECT_VERSION:-}" ]; then export SETUPTOOLS_SCM_PRETEND_VERSION="$PROJECT_VERSION"; fi
    if [ "${1:-}" = compiled ]; then
        shift
        set_compilers
        if [ -d "/layers/source$packages" ]; then beside=/layers/source$packages; fi
    fi
    export PATH="/opt/env/bin:$PATH" PYTHONNOUSERSITE=1 PYTHONPATH="$beside" UV_NO_CACHE=1
    if [ -n "$bound" ]; then
        mkdir "$scratch/project"
        tar -C "$project" "$@" -cf - . | tar -C "$scratch/project" -xf -
        project=$scratch/project
    fi
    # setuptools would pack what an earlier build left in the folder
    made=$scratch/project-build
    mkdir "$made"
    printf '[build]\nbuild_base = %s/base\n' "$made" >"$made/setuptools.cfg"
    export DIST_EXTRA_CONFIG="$made/setuptools.cfg"
    "$uv" build --quiet --wheel --no-build-isolation --no-config --offline --python /opt/env \
        --out-dir "$made/wheels" "$project"
    if [ "$layer" != - ]; then set -- --prefix "/layers/$layer/opt/env"; else set --; fi
    # By name: of a path, uv would record that it came from there.
    "$uv" pip install --quiet --no-config --no-deps --no-index --offline --find-links "$made/wheels" \
        --python /opt/env "$@" "$name"
    if [ "$layer" != - ]; then finish "$layer"; fi
}

# carried LAYER PYTHON [NAME]...: copy what an image carries of the files beside this script: what starts it, these
# programs and scripts of services, the target's own file, its requirements and the smoke check.
copy_carried() {
    folder=/opt/envspec
    if [ "$1" != - ]; then folder=/layers/$1/opt/envspec; fi
    mkdir -p "$folder"
    list='import json, sys; print(*sum(json.load(open(sys.argv[1]))["parts"].values(), []), sep="\n")'
    parts=$("$2" -ISB -c "$list" "$here/target.json")
    layer=$1 python=$2
    shift 2
    for name in "$@"; do
        shift
        case $name in
            *.py) set -- "$@" "$name" ;;
            *) set -- "$@" "services/$name.sh" ;;
        esac
    done
    set -- bytecode.py entrypoint.sh healthcheck.sh preflight.py warned.sh "$@"
    (cd "$here" && cp -p --parents "$@" SHA256SUMS envspec-check.pyz target.json "$folder")
    mkdir -p "$folder/requirements"
    for part in $parts; do
        file=$here/$part
        if [ ! -f "$file" ]; then file=$here/${part##*/}; fi # a Dockerfile copies them beside this script
        cp -p "$file" "$folder/$part"
    done
    seal_carried "$folder" "$python"
    if [ "$layer" != - ]; then set_times "$layer"; fi
}

# sealed FOLDER PYTHON: unpack the smoke check among the carried files in a folder, hold them to their list, and cut
# that down to those that are there.
seal_carried() {
    cd "$1"
    "$2" -ISB -m zipfile -e envspec-check.pyz check
    # the list is of all specs' files
    sha256sum --check --quiet --ignore-missing SHA256SUMS
    rm envspec-check.pyz
    rm -f build.sh # a bundle has it beside
    while read -r sum file; do
        if [ -f "$file" ]; then echo "$sum  $file"; fi
    done <SHA256SUMS >own
    mv own SHA256SUMS
    chmod -R 0755 .
}

# cuda FOLDER: make the links by which builds look for the headers and the runtime of a toolkit in this folder of
# /usr/local/cuda.
link_cuda() {
    mkdir -p /usr/local/cuda
    ln -sfn "$1/include" /usr/local/cuda/include
    ln -sfn "$1/lib" /usr/local/cuda/lib64
}

# own USER [--cuda FOLDER] [PACKAGE...]: make what an image has of its spec's own: Debian packages, with the options of
# `apt`, the links of `cuda`, and the user.
make_own() {
    user=$1 && shift
    if [ "${1:-}" = --cuda ]; then
        link_cuda "$2"
        shift 2
    fi
    if [ $# -gt 0 ]; then install_debian "$@"; fi
    make_user "$user"
}

# Make the user with the number 1000, and the folder where it works.
make_user() {
    # Some bases have a user of this number.
    if old=$(id -nu 1000 2>/dev/null); then userdel "$old"; fi
    # Not of the user's name: Debian has groups of many names.
    if ! getent group 1000 >/dev/null; then groupadd --gid 1000 envspec; fi
    useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash "$1"
    install -d -o 1000 -g 1000 /workspace
    set_profile
    rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
    set_times -
}

# A login shell's profile, as sshd's sessions have it, sets PATH anew.
set_profile() {
    mkdir -p /etc/profile.d
    echo "PATH=/opt/env/bin:\$PATH" >/etc/profile.d/envspec.sh
}

step=$1 && shift
case $step in
    apt) install_debian "$@" ;;
    python) make_python "$@" ;;
    conda) make_conda "$@" ;;
    fetch) fetch_variants "$@" ;;
    install) install_wheels "$@" ;;
    compile) compile_sources "$@" ;;
    project) build_project "$@" ;;
    carried) copy_carried "$@" ;;
    sealed) seal_carried "$@" ;;
    cuda) link_cuda "$@" ;;
    own) make_own "$@" ;;
    workspace)
        # A SIF runs as anybody.
        mkdir -p /workspace
        chmod 1777 /workspace
        set_profile
        ;;
    *) fail "no such step: $step" ;;
esac
