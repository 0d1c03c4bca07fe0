#!/bin/sh
# Fetch wheels of variants (PEP 825) by their names at an index.
#
#     fetch.sh [--beside] [--torch-backend NAME] OPTION... -- FILE SHA256 SIZE [FILE SHA256 SIZE]...
#
# OPTION   of uv, for the index: no word of one has a space
set -euf

# shellcheck source=SCRIPTDIR/pytorch.sh
. "${0%/*}/pytorch.sh"
index=''
while [ "$1" != -- ]; do
    index="$index $1"
    shift
done
shift
# shellcheck disable=SC2086 # each word is one
exec /opt/env/bin/python -I /layers/fetch_variants.py /layers/wheels "$@" -- /layers/uv $index
