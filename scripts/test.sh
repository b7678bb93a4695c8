#!/usr/bin/env bash
# Every test, in two processes side by side that take about as long: most tests on Spark, which share a session; and the
# others, with those on Spark that are marked aside (benchmarks, changes of tables, and what starts Spark itself). What is
# marked long is left to `make test-long`, what needs Spark's S3A to `make test-stores`. Arguments go to both.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly none=5 # how pytest ends if no test was chosen
export JAVA_HOME
JAVA_HOME=$(cat .venv/java-home)
others=$(mktemp)
trap 'rm -f "$others"; [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null' EXIT

.venv/bin/python -m pytest -m "(not spark or aside) and not long and not stores" "$@" >"$others" 2>&1 &
pid=$!
.venv/bin/python -m pytest -m "spark and not aside and not long and not stores" "$@"
spark=$?
wait "$pid"
rest=$?
pid=
echo
echo "Beside it, the tests that need no Spark, and those aside:"
cat "$others"

[ "$spark" = "$none" ] && [ "$rest" = "$none" ] && exit "$none"
for status in "$spark" "$rest"; do
  [ "$status" = 0 ] || [ "$status" = "$none" ] || exit "$status"
done
