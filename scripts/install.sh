#!/usr/bin/env bash
# Installs what `make build` built. DESTDIR, PREFIX, SYSCONFDIR and UNITDIR say
# where; an existing configuration file is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${DESTDIR=}" "${PREFIX:=/usr/local}" "${SYSCONFDIR:=/etc}"
: "${UNITDIR:=$SYSCONFDIR/systemd/system}"
bin=bin/l4lbd
share=$DESTDIR$PREFIX/share

install -D -m 755 "$bin" "$DESTDIR$PREFIX/bin/l4lbd"

install -d "$share/man/man1"
"$bin" man --dir "$share/man/man1"

completion() { # SHELL FILE
	install -d "$(dirname "$share/$2")"
	"$bin" completion "$1" >"$share/$2"
	chmod 644 "$share/$2"
}
completion bash bash-completion/completions/l4lbd
completion zsh zsh/site-functions/_l4lbd
completion fish fish/vendor_completions.d/l4lbd.fish

install -d "$DESTDIR$UNITDIR"
for unit in l4lbd.service l4lbd-decap@.service; do
	sed "s|/usr/local/bin/|$PREFIX/bin/|; s|/etc/l4lb/|$SYSCONFDIR/l4lb/|" "packaging/$unit" \
		>"$DESTDIR$UNITDIR/$unit"
	chmod 644 "$DESTDIR$UNITDIR/$unit"
done

config=$DESTDIR$SYSCONFDIR/l4lb/l4lbd.yaml
if [ -e "$config" ]; then
	echo "install: kept $config"
else
	install -D -m 644 packaging/l4lbd.yaml "$config"
fi
