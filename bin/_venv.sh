# Sourced by bin/quickstart and bin/test: makes .venv beside the checkout's bin/ and installs kcli with the named extras.
# Usage: ensure_venv EXTRAS   (for example: ensure_venv test,spark). Sets VENV.

find_python() {
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3.14 python3; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "kcli needs Python 3.11 or newer with the venv module (Debian: apt-get install python3 python3-venv)." >&2
    return 1
}

# The library for Kerberos is compiled, so it needs the headers of MIT krb5 and of Python, and a C compiler.
can_compile_kerberos() {
    command -v krb5-config >/dev/null 2>&1 && command -v cc >/dev/null 2>&1 &&
        "$VENV/bin/python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}

install_kcli() {
    "$VENV/bin/python" -m pip install --disable-pip-version-check --editable "$1" >"$VENV/install.log" 2>&1
}

ensure_venv() {
    VENV="$ROOT/.venv"
    extras="$1"
    if [ ! -x "$VENV/bin/python" ]; then
        python=$(find_python) || return 1
        echo "Making $VENV with $python" >&2
        "$python" -m venv "$VENV" || return 1
    fi
    case ",$extras," in
        *,test,*) ! can_compile_kerberos || extras="$extras,kerberos" ;;
    esac
    stamp="$VENV/.installed-$extras"
    target="$ROOT${extras:+[$extras]}"
    if [ ! -e "$stamp" ] || [ "$ROOT/pyproject.toml" -nt "$stamp" ]; then
        echo "Installing kcli${extras:+ with $extras} into $VENV (PySpark is large: with it the first time takes minutes)" >&2
        install_kcli "$target" || {
            # The library for Kerberos could not be compiled. Everything else works without it.
            case "$extras" in *,kerberos) install_kcli "$ROOT[${extras%,kerberos}]" ;; *) false ;; esac
        } || {
            cat "$VENV/install.log" >&2
            return 1
        }
        touch "$stamp"
    fi
}
