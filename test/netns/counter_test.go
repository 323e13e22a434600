package netns

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"l4lb/internal/testutil"
)

// snmp reads a counter of a namespace's IP stack: "Icmp InDestUnreachs" for
// IPv4, "Icmp6InPktTooBigs" for IPv6.
func snmp(ns *testutil.NetNS, name string) (value int) {
	ns.Do(func() (err error) {
		group, field, ipv4 := strings.Cut(name, " ")
		if !ipv4 {
			value, err = snmp6(name)
			return err
		}
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if fields[0] != group+":" {
				continue
			}
			if names == nil {
				names = fields
				continue
			}
			for i := range names {
				if names[i] == field {
					value, err = strconv.Atoi(fields[i])
					return err
				}
			}
		}
		return fmt.Errorf("no counter %s", name)
	})
	return value
}

// toldWhatFits is how often a host was told that its packets are too big.
func toldWhatFits(ns *testutil.NetNS, f family) int {
	return snmp(ns, pick(f, "Icmp InDestUnreachs", "Icmp6InPktTooBigs"))
}

func snmp6(name string) (int, error) {
	text, err := os.ReadFile("/proc/thread-self/net/snmp6")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("no counter %s", name)
}

// counted is a counter at every backend that is not zero there.
func (n *network) counted(name string) map[string]int {
	out := map[string]int{}
	for _, b := range n.backends {
		if v := snmp(b.ns, name); v != 0 {
			out[b.name] = v
		}
	}
	return out
}
