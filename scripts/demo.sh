#!/usr/bin/env bash
# Makes a virtual environment, installs envprobe and shows it at work on a real process tree.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$ROOT/scripts/venv.sh"
make_venv ""
exec "$VENV/bin/envprobe" demo "$@"
