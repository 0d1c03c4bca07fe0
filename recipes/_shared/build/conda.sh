#!/bin/sh
# Make conda's environment from the files that the lock names.
#
#     conda.sh FILE
set -eu

: "${CONDA_CHANNEL_HOST:?give the host of your channels with --build-arg CONDA_CHANNEL_HOST=}"
if [ -s /run/secrets/netrc ]; then export NETRC=/run/secrets/netrc; fi
sed "s|  # .*||; s|[$]{CONDA_CHANNEL_HOST}|$CONDA_CHANNEL_HOST|" "$1" >/tmp/explicit.txt
MAMBA_ALWAYS_COPY=true micromamba create --yes --quiet --root-prefix /opt/conda --prefix /opt/env \
    --file /tmp/explicit.txt
# conda's own bytecode holds the time of each file
find /opt/env -name '*.pyc' -delete
/opt/env/bin/python -ISB /layers/bytecode.py /opt/env/lib
# the file by which conda tools know an environment; what stands in it are times
: >/opt/env/conda-meta/history
mkdir -p /layers/conda/opt
mv /opt/env /layers/conda/opt
sh "${0%/*}/times.sh" /layers/conda
