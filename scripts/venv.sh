# Sourced by demo.sh and test.sh: makes the project's virtual environment and installs envprobe.
# Usage: make_venv EXTRAS   (for example "" or "[test,lint]"); sets VENV.

fail() { printf '%s\n' "$*" >&2; exit 2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "envprobe needs Python 3.10 or later. Install it (Debian, Ubuntu: apt install python3) or" \
        "name one: PYTHON=/path/to/python3 $0"
}

make_venv() {
    local extras=$1 python
    VENV=${ENVPROBE_VENV:-$ROOT/.venv}
    if [ ! -x "$VENV/bin/python" ]; then
        python=$(find_python) || exit 2
        "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
            "This Python cannot make virtual environments. On Debian and Ubuntu:" \
            "apt install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
        "$python" -m venv "$VENV" || fail "Could not make a virtual environment in $VENV."
    fi
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$ROOT$extras" ||
        fail "Could not install envprobe$extras; pip says why above (is a package index reachable?)."
}
