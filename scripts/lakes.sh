#!/usr/bin/env bash
# Makes an environment in which Spark reads Delta and Iceberg tables by their own readers: .venv-spark-VERSION with the jars
# of both in .venv-spark-VERSION/lakes, from Maven Central by way of Spark itself. Where they cannot be had, the file
# `missing` in that folder says why, and what needs them is skipped.
#   scripts/lakes.sh 4.1   the version of Spark; 4.1 is the newest that both have a build for
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly spark=${1:-4.1}
readonly venv=.venv-spark-$spark
readonly folder=$venv/lakes

delta=io.delta:delta-spark_${spark}_2.13:4.4.0
case $spark in
  4.0) iceberg=org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0 ;;
  4.1) iceberg=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 ;;
  4.2) iceberg= ;;
  *)
    printf 'lakes: neither Delta nor Iceberg has a build for Spark %s; VERSION=4.0, 4.1 or 4.2 has one\n' "$spark" >&2
    exit 1
    ;;
esac
readonly packages=$delta${iceberg:+,$iceberg}

scripts/setup.sh "$spark"
if [ "$(cat "$folder/packages" 2>/dev/null)" = "$packages" ]; then exit; fi

printf 'lakes: getting %s\n' "$packages" >&2
rm -rf "$folder"
mkdir -p "$folder"
printf 'pass\n' >"$folder/nothing.py"
# Spark resolves the packages with all they need, and keeps the jars in the folder of its resolver.
home=$("$venv/bin/python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
if JAVA_HOME=$(cat "$venv/java-home") SPARK_HOME=$home SPARK_SUBMIT_OPTS="-Duser.home=$PWD/$folder" PYSPARK_PYTHON=$PWD/$venv/bin/python "$home/bin/spark-submit" --master 'local[1]' --packages "$packages" \
  --conf "spark.jars.ivy=$PWD/$folder/ivy" "$folder/nothing.py" >"$folder/log" 2>&1; then
  mv "$folder"/ivy/jars/*.jar "$folder"
  printf '%s\n' "$packages" >"$folder/packages"
else
  printf '%s could not be had from Maven Central: %s\n' "$packages" \
    "$(grep -iE 'exception|unresolved|not found|timed out|no such' "$folder/log" | tail -n 1)" | tee "$folder/missing" >&2
fi
rm -rf "$folder/ivy" "$folder/nothing.py"
