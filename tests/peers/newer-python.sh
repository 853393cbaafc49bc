#!/bin/sh
# Prints a Python of 3.13 or newer: $PEERS_PYTHON_NEWER, or one in PATH, of pyenv or of uv. Prints nothing if there is none.
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 13))' >/dev/null 2>&1; }
for python in "$PEERS_PYTHON_NEWER" python3.14 python3.13 python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[3-9]*/bin/python3 "$(uv python find '>=3.13' 2>/dev/null)"; do
    if [ -n "$python" ] && fits "$python"; then
        echo "$python"
        exit
    fi
done
