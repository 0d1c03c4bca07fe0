#!/bin/sh
# Install Debian packages, and leave nothing that differs from build to build.
#
#     apt.sh [--as-of DAY] [--headers 3.12] PACKAGE...
#
# --as-of     DAY is a snapshot of Debian ("20261101T000000Z"); without it, the newest packages
# --headers   the headers of a version of Python too, where the base brings it: kernels are compiled with them
set -eu

mirrors=/run/apt-mirrors # straight in a folder that every base has: buildah leaves those that it makes for a mount
day='' headers=''
while :; do
    case ${1:-} in
        --as-of) day=$2 && shift 2 ;;
        --headers) headers=$2 && shift 2 ;;
        *) break ;;
    esac
done
began=$(date +%s)

# shellcheck source=SCRIPTDIR/mirrors.sh
. "${0%/*}/mirrors.sh"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@"
if [ -n "$headers" ] && [ -x "/usr/bin/python$headers" ]; then
    apt-get install -y -qq --no-install-recommends "libpython$headers-dev"
fi

# Not in a cache that is mounted: buildah 1.28 keeps its lock to the end of the build, and two builds wait for each
# other.
rm -rf "$copy" /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
# What differs from build to build, and host keys that Debian's package makes.
rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_*
find /var/log -type f -delete
sh "${0%/*}/times.sh" / "$began"
