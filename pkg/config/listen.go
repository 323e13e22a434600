package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
)

// adminListen takes unix:/path or host:port.
func adminListen(n *node) (string, error) {
	file, ok := strings.CutPrefix(n.text, "unix:")
	if !ok {
		return hostPort(n.text, "unix:/run/l4lb/admin.sock or 127.0.0.1:9463")
	}
	const maxSocketPath = 107 // sockaddr_un holds 108 bytes with the final zero
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return "", errors.New("is not an absolute path: write it as unix:/run/l4lb/admin.sock")
	case len(file) > maxSocketPath:
		return "", errors.New("is longer than a socket path can be: use at most 107 bytes after the word unix and its colon")
	case strings.ContainsRune(file, 0):
		return "", errors.New("has a zero byte: write it as unix:/run/l4lb/admin.sock")
	}
	return n.text, nil
}

// metricsListen takes host:port, or "" for no listener.
func metricsListen(n *node) (string, error) {
	if n.text == "" {
		return "", nil
	}
	return hostPort(n.text, "127.0.0.1:9464, or :9464 for all addresses")
}

func hostPort(text, example string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("is not a place to listen: write it as %s", example)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
		return "", fmt.Errorf("does not begin with an address: write it as %s", example)
	}
	if v, ok := decimal(port); !ok || v < 1 || v > 65535 {
		return "", errors.New("has a wrong port: use 1 to 65535")
	}
	return text, nil
}

// interfaceName applies the kernel's rules for a link's name.
func interfaceName(n *node) (string, error) {
	const maxLength = 15 // IFNAMSIZ without the final zero
	switch s := n.text; {
	case s == "":
		return "", errors.New("is empty: name an interface such as eth0")
	case len(s) > maxLength:
		return "", errors.New("is longer than an interface name can be: use at most 15 characters")
	case s == "." || s == ".." || strings.ContainsAny(s, "/: \t\r\n\v\f\x00"):
		return "", errors.New("is not an interface name: use a name that `ip link` shows")
	}
	return n.text, nil
}
