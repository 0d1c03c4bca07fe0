#!/bin/sh
# Make the virtual environment at its own path, for scripts name the Python that installs them.
#
#     python.sh PYTHON PREFERENCE [LAYER]
#
# PYTHON       uv's table of the build that the lock names, whose hash uv checks; or a version of a Python that is there
# PREFERENCE   uv's word for the Pythons that it takes
# LAYER        the folder of the layer that gets a copy; a base's own Python stays where it is
set -eu

# shellcheck source=SCRIPTDIR/uv.sh
. "${0%/*}/uv.sh"
case $1 in
    *.json)
        export UV_PYTHON_DOWNLOADS_JSON_URL="$1"
        version=$(sed -n 's/^  .cpython-\([0-9.]*\)-.*/\1/p' "$1")
        ;;
    *) version=$1 ;;
esac
export UV_PYTHON_PREFERENCE="$2"
"$uv" venv --quiet --python "$version" /opt/env
if [ $# = 2 ]; then exit; fi

mkdir -p "$3/opt"
for folder in /opt/env /opt/python; do
    if [ -d "$folder" ]; then cp -a "$folder" "$3/opt"; fi
done
sh "${0%/*}/times.sh" "$3"
