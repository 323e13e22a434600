#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing, and nothing
# else: with everything in place it needs neither network nor root.
#
#   scripts/deps.sh PACKAGE...
set -euo pipefail

missing=()
for package in "$@"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "deps: no apt-get here; going on without checking for: ${missing[*]}" >&2
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "deps: not root, so not installing: ${missing[*]}" >&2
	echo "deps: as root: apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 0
fi

echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null
apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
