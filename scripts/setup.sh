#!/usr/bin/env bash
# Makes everything that sidestep needs to run, test and measure: .venv with all packages, and a Java that Spark accepts.
# Safe to run again at any time; when nothing changed it only compares a stamp. Settings, all optional:
#   scripts/setup.sh 4.1   the same for another version of Spark, in .venv-spark-4.1
#   PYTHON     the Python to build .venv from (3.11 or newer)
#   JAVA_HOME  the Java to use (17 or newer)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly spark=${1:-}
readonly venv=.venv${spark:+-spark-$spark}
readonly stamp=$venv/setup-stamp
readonly java_record=$venv/java-home

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# --- installing Debian packages, where we may ---------------------------------------------------------------------

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_updated=
apt_install() {
  if [ -z "$apt_updated" ]; then
    apt-get update -qq >/dev/null || return 1
    apt_updated=yes
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# --- Java ---------------------------------------------------------------------------------------------------------

# Prints the home of the given java command if Spark 4 can run on it: version 17 or newer, with the vector module
# (cut-down Java run-times lack it, and Spark's launcher asks for it).
usable_java_home() {
  local settings version home
  settings=$("$1" -XshowSettings:properties -version 2>&1) || return 1
  version=$(sed -n 's/^ *java\.specification\.version = //p' <<<"$settings")
  home=$(sed -n 's/^ *java\.home = //p' <<<"$settings")
  [[ $version =~ ^[0-9]+$ ]] && [ "$version" -ge 17 ] || return 1
  "$home/bin/java" --list-modules 2>/dev/null | grep -q '^jdk\.incubator\.vector' || return 1
  printf '%s\n' "$home"
}

find_java_home() {
  # Spark asks JAVA_HOME first, so a bad one must not be passed over in silence.
  if [ -n "${JAVA_HOME:-}" ]; then
    usable_java_home "$JAVA_HOME/bin/java" && return
    say "JAVA_HOME=$JAVA_HOME holds no Java 17 or newer that Spark can run on; looking elsewhere."
  fi
  if command -v java >/dev/null 2>&1 && usable_java_home java; then return; fi
  # The default java may be older than others that are installed; of those, the versions that Spark is tested with first.
  local candidate
  for candidate in /usr/lib/jvm/*{17,21}*/bin/java /usr/lib/jvm/*/bin/java; do
    if [ -x "$candidate" ] && usable_java_home "$candidate"; then return; fi
  done
  return 1
}

ensure_java() {
  local home
  if ! home=$(find_java_home); then
    if can_apt; then
      say "no Java 17 or newer found; installing openjdk-17-jre-headless"
      apt_install openjdk-17-jre-headless || fail "apt-get could not install openjdk-17-jre-headless (its messages are above)." \
        "Install a Java 17 or newer yourself, set JAVA_HOME to its folder, and run make setup again."
      home=$(find_java_home) || fail "openjdk-17-jre-headless is installed, but no usable java was found in PATH or /usr/lib/jvm." \
        "Set JAVA_HOME to the folder of a Java 17 or newer and run make setup again."
    else
      fail "Spark needs Java 17 or newer, and none was found in JAVA_HOME, PATH or /usr/lib/jvm." \
        "Install one (Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)," \
        "set JAVA_HOME to its folder if it is not in PATH, and run make setup again."
    fi
  fi
  printf '%s\n' "$home" >"$java_record"
}

# --- Chromium -----------------------------------------------------------------------------------------------------

# Only the tests of the console's page need it; without it they are skipped, and say so.
ensure_chromium() {
  if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
    || command -v google-chrome >/dev/null 2>&1; then return; fi
  if can_apt; then
    say "no Chromium found; installing chromium for the tests of the console"
    apt_install chromium fonts-dejavu-core || say "apt-get could not install chromium: the tests of the console's page are skipped"
  else
    say "no Chromium found: the tests of the console's page are skipped (Debian: sudo apt-get install chromium)"
  fi
}

# --- Python -------------------------------------------------------------------------------------------------------

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer; set it to one and run make setup again."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3.11 python3 python3.12 python3.13 python; do
    if new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "sidestep needs Python 3.11 or newer, and none was found in PATH." \
    "Install one (Debian: apt-get install python3 python3-venv), or set PYTHON to its path, and run make setup again."
}

has_ensurepip() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# A virtual environment with pip in it, by whichever way this Python offers.
make_venv() {
  local python=$1 version
  rm -rf "$venv"
  if ! has_ensurepip "$python" && can_apt; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "this Python cannot make virtual environments; installing python$version-venv"
    apt_install "python$version-venv" || say "apt-get could not install python$version-venv; trying other ways"
  fi
  if has_ensurepip "$python" && "$python" -m venv "$venv"; then return; fi
  if "$python" -m virtualenv --version >/dev/null 2>&1 && "$python" -m virtualenv -q "$venv"; then return; fi
  if "$python" -m pip --version >/dev/null 2>&1 && "$python" -m venv --without-pip "$venv" \
    && "$python" -m pip --python "$venv/bin/python" install -q pip; then return; fi
  rm -rf "$venv"
  fail "$python can make no virtual environment: it has neither ensurepip, nor virtualenv, nor pip." \
    "Install its venv package (Debian and Ubuntu: sudo apt-get install python3-venv), or set PYTHON to another Python, and run make setup again."
}

# --- the whole ----------------------------------------------------------------------------------------------------

key() { cat pyproject.toml scripts/setup.sh | cksum; }

up_to_date() {
  local home
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(key)" ] && "$venv/bin/python" -c '' 2>/dev/null || return 1
  home=$(cat "$java_record" 2>/dev/null) && [ -x "$home/bin/java" ] || return 1
  [ -z "${JAVA_HOME:-}" ] || [ "$JAVA_HOME" -ef "$home" ]
}

main() {
  if up_to_date; then return; fi
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || ! new_enough "$venv/bin/python"; then
    local python
    python=$(find_python)
    say "making $venv with $python"
    make_venv "$python"
  fi
  ensure_java
  ensure_chromium
  if ! [ -f "$stamp" ] || [ "$(cat "$stamp")" != "$(key)" ]; then
    say "installing packages into $venv (a minute or two the first time)"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -e '.[dev,demo,console]' ${spark:+"pyspark==$spark.*"} \
      || fail "pip could not install the packages (its messages are above); check the network and run make setup again."
  fi
  key >"$stamp"
  say "ready: $("$venv/bin/python" --version), Java at $(cat "$java_record")"
}

main
