#!/usr/bin/env bash
# Asks a real daemon everything that its own description allows, and much that it does not, and
# fails if it answers with a server error or with something it did not describe.
#
# Needs Python 3 with `schemathesis` (`python3 -m pip install schemathesis`) and a built program.
# The daemon runs on a journal of its own with the sample in it; both are gone afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=${HANSARD:-${CARGO_TARGET_DIR:-target}/debug/hansard}
schemathesis=${SCHEMATHESIS:-schemathesis}
examples=${EXAMPLES:-50}
if [ ! -x "$program" ] || ! command -v "$schemathesis" >/dev/null; then
    echo "needs \`$program\` (HANSARD) and \`$schemathesis\` (SCHEMATHESIS)" >&2
    exit 2
fi
program=$(realpath "$program")

home=$(mktemp -d "${TMPDIR:-/tmp}/hansard-schema.XXXXXX")
run() { env -i HOME="$home" TZ=UTC "$program" "$@"; }
trap 'run down >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
run import <docs/sample.ndjson >/dev/null
run up --detach >/dev/null
health=$home/.local/share/hansard/health
address=$(cat "$health/http.address")
description=$PWD/docs/openapi.json
# It keeps notes where it runs.
cd "$home"

# A stream goes on for ever: it is not for a tool that waits for the end of an answer.
"$schemathesis" run "$description" --url "$address" \
    --header "Authorization: Bearer $(cat "$health/http.token")" \
    --exclude-path '/api/sessions/{id}/stream' \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --max-examples "$examples" --request-timeout 30 --no-color "$@"
