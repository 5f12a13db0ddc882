#!/bin/sh
# Makes the journals of one version: make.sh PROGRAM OUT
#
# PROGRAM is a build of that version, OUT a folder beside this script with the name of its commit.
# Everything happens below /home/dev in a mount of its own, so that no path of this machine gets into
# a journal.
set -eu
case ${INSIDE:-} in
'') exec env INSIDE=1 unshare --user --map-root-user --mount --net "$0" "$(realpath "$1")" "$(realpath "$2")" ;;
esac
program=$1 out=$2
fixtures=$(dirname "$0")/../../../../capture/tests/fixtures
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
cp "$program" "$work/hansard"
cp -R "$fixtures" "$work/fixtures"
mkdir "$work/out"
mount --bind "$out" "$work/out"
mkdir -p /home
mount -t tmpfs tmpfs /home
mkdir -p /home/dev/project
ip link set lo up 2>/dev/null || true
hansard() { env -i HOME=/home/dev TZ=UTC PATH=/usr/bin:/bin "$work/hansard" "$@"; }
for recording in claude/s6_kill9_stream codex/s6_kill9_stream pi/s2; do
    cp -R "$work/fixtures/$recording/home/." /home/dev/
done
find /home/dev -type f -exec touch -d '2026-11-16 12:00 UTC' {} +
cd /home/dev

# What commands leave behind: saved views, the index, and the answers to compare.
look() {
    journal=$1 answers=$2
    mkdir -p "$answers"
    hansard --journal "$journal" --json sessions > "$answers/sessions.json"
    : > "$answers/show.json"
    for session in $(sed -n 's/.*"id":"\([^"]*\)".*/\1/p' "$answers/sessions.json" | sort); do
        hansard --journal "$journal" --json show "$session" >> "$answers/show.json"
    done
    hansard --journal "$journal" --json search the --order oldest > "$answers/search.json"
    hansard --journal "$journal" --json usage session > "$answers/usage.json"
    hansard --journal "$journal" --json doctor > "$answers/doctor.json"
}

# A daemon records into SQLite and tells it on the bus; later a hook finds no daemon.
sqlite=/home/dev/journals/sqlite
hansard --journal "$sqlite" ingest --once
hansard --journal "$sqlite" up > up.log 2>&1 &
until hansard --journal "$sqlite" down 2>/dev/null; do :; done
wait
# Locks, tokens and logs belong to the daemon of that day.
(cd "$sqlite" && rm -rf lock 2* health/*.lock health/*.sock health/*.token health/*.log health/daemon.*)
look "$sqlite" answers/sqlite
session=$(find .claude/projects -name '*.jsonl' | head -1)
call() {
    printf '{"session_id":"%s","cwd":"/home/dev/project","transcript_path":"/home/dev/%s",%s}' \
        "$(basename "$session" .jsonl)" "$session" "$2" | hansard --journal "$sqlite" hook claude "$1"
}
call PermissionRequest '"tool_name":"Bash","tool_input":{"command":"npm test"}'
call SessionEnd '"reason":"other"'

files=/home/dev/journals/files
hansard --journal "$files" import --store files < /dev/null
hansard --journal "$files" ingest --once
look "$files" answers/files
rm -rf "$sqlite"/lock "$files"/lock
cp -R journals answers "$work/out/"
