#!/bin/sh
# Make the user with the number 1000, and the folder where it works.
#
#     user.sh NAME
set -eu

began=$(date +%s)
# Some bases have a user of this number.
if old=$(id -nu 1000 2>/dev/null); then userdel "$old"; fi
# Not of the user's name: Debian has groups of many names.
if ! getent group 1000 >/dev/null; then groupadd --gid 1000 envspec; fi
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash "$1"
install -d -o 1000 -g 1000 /workspace
# A login shell's profile sets PATH anew.
echo "PATH=/opt/env/bin:\$PATH" >/etc/profile.d/envspec.sh
rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
sh "${0%/*}/times.sh" / "$began"
