#!/usr/bin/env bash
# Runs each fuzz target of the repository for FUZZTIME (default 10s), one after
# another: `go test -fuzz` takes one target of one package at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t targets < <(git grep -oE --untracked '^func Fuzz\w+' -- '*_test.go')
[ "${#targets[@]}" -gt 0 ] || { echo 'fuzz: no targets' >&2; exit 1; }

for found in "${targets[@]}"; do # FILE:func NAME
	target=${found##* }
	package=./$(dirname "${found%%:*}")
	echo "-- $target in $package"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package" </dev/null
done
