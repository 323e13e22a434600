package doctor

import (
	"fmt"
	"net"
	"net/netip"
)

// addCommand gives a host a VIP the way a backend must have it.
func addCommand(vip netip.Addr) string {
	if vip.Is4() {
		return fmt.Sprintf("ip addr add %s/32 dev lo", vip)
	}
	return fmt.Sprintf("ip -6 addr add %s/128 dev lo preferred_lft 0", vip)
}

// arpMend keeps a backend from answering ARP for its VIPs. Its neighbours forget
// the wrong answer when they next hear the gateway.
func arpMend() []string {
	return []string{"sysctl -w net.ipv4.conf.all.arp_ignore=1", "sysctl -w net.ipv4.conf.all.arp_announce=2"}
}

func macString(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }
