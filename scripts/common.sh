# Read by scripts/ladder and scripts/test: sets up the environment once, in $venv. Not a command of its own.
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=${KERNEL_LADDER_VENV:-$root/.venv}

# A Python of 3.11 or later: python3 first, since that is the one that sees the machine's PyTorch.
find_python() {
    for candidate in "${KERNEL_LADDER_PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "kernel-ladder needs Python 3.11 or later, and found none on PATH" >&2
    return 3
}

# set_up LEVEL: does nothing, in a few hundredths of a second, when all is there.
set_up() {
    if ! "$venv/bin/python" -I -S "$root/scripts/setup_env.py" --venv "$venv" --level "$1" --is-current 2>/dev/null; then
        python=$(find_python) || exit $?
        "$python" "$root/scripts/setup_env.py" --venv "$venv" --level "$1" || exit $?
    fi
}

print_plan() {
    python=$(find_python) || exit $?
    exec "$python" "$root/scripts/setup_env.py" --venv "$venv" --level "$1" --print-plan
}
