#!/usr/bin/env bash
# Runs every linter and reports all that they find, not only the first.
# CLANG_FORMAT names the clang-format to use.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

exec </dev/null

tool() { go tool -modfile=tools/go.mod "$@"; }
failed=()

# check NAME COMMAND...: fails when the command does, or when it prints names of
# files, as the formatters do instead of failing. That modules had to be fetched
# first is no finding.
check() {
	local name=$1 out rc=0
	shift
	out=$("$@" 2>&1) || rc=$?
	out=$(grep -v '^go: downloading ' <<<"$out")
	if [ "$rc" -ne 0 ] || [ -n "$out" ]; then
		printf -- '-- %s\n%s\n' "$name" "$out"
		failed+=("$name")
	fi
}

mapfile -t go_files < <(git ls-files -co --exclude-standard '*.go' | grep -v _bpfel)
mapfile -t c_files < <(git ls-files -co --exclude-standard 'bpf/*.[ch]')
mapfile -t scripts < <(git ls-files -co --exclude-standard 'scripts/*.sh' .ci/run)

check gofumpt tool gofumpt -l "${go_files[@]}"
check goimports tool goimports -local l4lb -l "${go_files[@]}"
check vet go vet ./...
check 'go mod tidy' go mod tidy -diff
check 'go mod tidy (tools)' go -C tools mod tidy -diff
check staticcheck tool staticcheck -checks 'all,-ST1000' ./...
check errorlint tool go-errorlint -errorf ./...
check sloglint tool sloglint -static-msg -no-global=default -key-naming-case=snake ./...
check clang-format "${CLANG_FORMAT:-clang-format}" --dry-run -Werror "${c_files[@]}"
check shellcheck shellcheck "${scripts[@]}"

if [ "${#failed[@]}" -gt 0 ]; then
	echo "lint: failed: ${failed[*]}"
	exit 1
fi
echo "lint: clean"
