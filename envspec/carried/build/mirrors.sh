# shellcheck shell=sh disable=SC2154
# Have apt use a site's mirrors, or Debian as it was on a day. Read by a script, not run.
#
# mirrors   a file of words NAME=URL: an archive by its path on public mirrors, and where it is here
# day       of a snapshot of Debian, as its archive names it ("20261101T000000Z"), or empty
#
# apt reads a copy of its configuration in which the sources name others; the image keeps its base's own. The archive of
# snapshots is where the base's own sources say that they were taken from, as those of Debian's images do, or where the
# word debian-snapshot says: the folder that has debian/20261101T000000Z.
copy=/var/lib/apt/site # in a folder that installing changes anyway

# Run a command on every file of sources.
on_sources() {
    find "$copy" \( -name '*.list' -o -name '*.sources' \) -exec "$@" {} +
}

if [ -n "$day" ] || [ -s "$mirrors" ]; then
    cp -a /etc/apt "$copy"
    echo "Dir::Etc \"$copy\";" >"$copy/own.conf"
    export APT_CONFIG="$copy/own.conf"
fi
if [ -n "$day" ]; then
    archive=''
    if [ -s "$mirrors" ]; then archive=$(sed -n 's,.*debian-snapshot=\([^ ]*\).*,\1,p' "$mirrors"); fi
    if [ -z "$archive" ]; then
        archive=$(on_sources sed -n '\,/debian\(-security\)\?/[0-9]*T[0-9]*Z,{s,.*\(https\?://[^ ]*\)/debian.*,\1,p;q}')
    fi
    if [ -z "$archive" ]; then
        echo "the base doesn't say where snapshots of Debian are: give debian-snapshot=URL in apt-mirrors" >&2
        exit 1
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
