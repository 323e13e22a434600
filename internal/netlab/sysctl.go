package netlab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SetSysctl sets a network sysctl inside the namespace. The key is the path
// below /proc/sys/net, as "ipv4/ip_forward"; it is a path because interface
// names may hold dots.
func (n *Namespace) SetSysctl(key, value string) error {
	err := n.Do(func() error {
		// /proc/sys/net shows the namespace of the thread that opens it.
		return os.WriteFile(sysctlPath(key), []byte(value), 0)
	})
	if err != nil {
		return fmt.Errorf("set sysctl %s=%s in %s: %w", key, value, n.name, err)
	}
	return nil
}

// Sysctl reads a network sysctl inside the namespace; key as in SetSysctl.
func (n *Namespace) Sysctl(key string) (string, error) {
	var out []byte
	err := n.Do(func() (err error) {
		out, err = os.ReadFile(sysctlPath(key))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read sysctl %s in %s: %w", key, n.name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// EnableForwarding makes the namespace a router for both families, without
// reverse path filtering.
func (n *Namespace) EnableForwarding() error {
	for _, kv := range [][2]string{
		{"ipv4/ip_forward", "1"},
		{"ipv6/conf/all/forwarding", "1"},
		{"ipv4/conf/all/rp_filter", "0"},
		{"ipv4/conf/default/rp_filter", "0"},
	} {
		if err := n.SetSysctl(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// disableDAD stops IPv6 duplicate address detection, which would hold back the
// link-local address for a second after the link came up. A kernel without IPv6
// has nothing to stop.
func (n *Namespace) disableDAD(link string) error {
	err := n.SetSysctl("ipv6/conf/"+link+"/accept_dad", "0")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func sysctlPath(key string) string {
	return filepath.Join("/proc/sys/net", filepath.Clean("/"+key))
}
