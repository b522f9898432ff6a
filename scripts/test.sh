#!/usr/bin/env bash
# Makes a virtual environment with the test extras and runs all tests; arguments go to pytest.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$ROOT/scripts/venv.sh"
make_venv "[test]"
cd "$ROOT"
exec "$VENV/bin/python" -m pytest "$@"
