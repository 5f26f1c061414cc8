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

install_kcli() {
    "$VENV/bin/python" -m pip install --disable-pip-version-check --editable "$1" >"$VENV/install.log" 2>&1
}

# The tests also want the libraries for JKS files and for Kerberos. Pip may have to compile them, which needs a C compiler,
# the headers of Python and those of MIT krb5. Without them everything else works, and their tests are skipped.
install_wishes() {
    for wish in jks kerberos; do
        install_kcli "$ROOT[$wish]" || {
            echo "The extra $wish cannot be installed, so its tests are skipped. To try again, remove $stamp" >&2
        }
    done
}

ensure_venv() {
    VENV="$ROOT/.venv"
    extras="$1"
    if [ ! -x "$VENV/bin/python" ]; then
        python=$(find_python) || return 1
        echo "Making $VENV with $python" >&2
        "$python" -m venv "$VENV" || return 1
    fi
    stamp="$VENV/.installed-$extras"
    target="$ROOT${extras:+[$extras]}"
    if [ ! -e "$stamp" ] || [ "$ROOT/pyproject.toml" -nt "$stamp" ]; then
        echo "Installing kcli${extras:+ with $extras} into $VENV (PySpark is large: with it the first time takes minutes)" >&2
        install_kcli "$target" || {
            cat "$VENV/install.log" >&2
            return 1
        }
        case ",$extras," in *,test,*) install_wishes ;; esac
        touch "$stamp"
    fi
}
