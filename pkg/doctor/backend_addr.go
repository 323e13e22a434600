package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func checkVIPAddress(_ context.Context, b *backend) ([]Finding, error) {
	var out []Finding
	for _, vip := range b.VIPs {
		at, err := addressesOf(b.nl, vip)
		if err != nil {
			return out, err
		}
		f, missing := vipAddressFinding(b.nl, vip, at)
		b.missing[vip] = missing
		out = append(out, f)
	}
	return out, nil
}

func vipAddressFinding(nl *netlink.Handle, vip netip.Addr, at []place) (_ Finding, missing bool) {
	f := Finding{Subject: vip.String(), Status: Problem}
	if len(at) == 0 {
		if local, err := isLocal(nl, vip); err == nil && local {
			return well(vip.String(), "a local route of this host has it"), false
		}
		f.What, f.Why = "this host does not have the VIP", "packets for it arrive, and are dropped without a trace"
		f.Mend = []string{addCommand(vip)}
		return f, true
	}
	loopback := slices.IndexFunc(at, func(p place) bool { return p.iface == "lo" })
	p := at[max(loopback, 0)]
	switch {
	case p.flags&unix.IFA_F_DADFAILED != 0 || p.flags&unix.IFA_F_TENTATIVE != 0:
		f.What = fmt.Sprintf("the VIP on %s is not in use: duplicate address detection is not over, or found the gateway", p.iface)
		f.Why = "the kernel takes nothing for an address that is tentative"
		f.Mend = []string{fmt.Sprintf("ip -6 addr del %s dev %s", p.prefix, p.iface), addCommand(vip)}
	case len(at) > 1 && vip.Is6(), loopback < 0:
		other := at[slices.IndexFunc(at, func(p place) bool { return p.iface != "lo" })]
		f.What = fmt.Sprintf("the VIP is an address of %s", other.iface)
		f.Why = "this host answers ARP or neighbour discovery for it there, and takes it from the gateway"
		f.Mend = []string{fmt.Sprintf("ip addr del %s dev %s", other.prefix, other.iface)}
		if loopback < 0 {
			f.Mend = append(f.Mend, addCommand(vip))
		}
	case !p.prefix.IsSingleIP():
		f.What = fmt.Sprintf("the VIP is on lo as %s", p.prefix)
		f.Why = "all of the network is then this host's own: it does not reach the VIP's neighbours"
		f.Mend = []string{addCommand(vip), fmt.Sprintf("ip addr del %s dev lo", p.prefix)}
	case vip.Is6() && p.valid:
		f.Status, f.What = Note, "the VIP on lo is not deprecated"
		f.Why = "this host may use it as source of connections of its own, whose answers go to the gateway"
		f.Mend = []string{fmt.Sprintf("ip -6 addr change %s dev lo preferred_lft 0", p.prefix)}
	default:
		return well(vip.String(), "on lo"), false
	}
	return f, false
}

// effective is the larger of an IPv4 interface setting and that of all, which is
// what holds for arp_ignore, arp_announce and rp_filter.
func effective(iface, key string) (int, error) {
	value := 0
	for _, name := range []string{"all", iface} {
		text, err := sysctl("ipv4/conf/" + name + "/" + key)
		if err != nil {
			return 0, err
		}
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			return 0, fmt.Errorf("read %s of %s: %w", key, name, err)
		}
		value = max(value, n)
	}
	return value, nil
}

func checkARPIgnore(_ context.Context, b *backend) ([]Finding, error) {
	return b.arpSetting("arp_ignore", 1,
		"this host answers ARP for every address it has, on any interface: it takes the VIP from the gateway")
}

func checkARPAnnounce(_ context.Context, b *backend) ([]Finding, error) {
	return b.arpSetting("arp_announce", 2,
		"an answer to a client may make this host ask for its router with the VIP as sender: the router then takes it for the VIP's owner")
}

func (b *backend) arpSetting(key string, least int, why string) ([]Finding, error) {
	if !b.has4() {
		return []Finding{well("", "there is no IPv4 VIP")}, nil
	}
	var out []Finding
	for _, l := range b.facing {
		if l.RawFlags&unix.IFF_NOARP != 0 {
			continue
		}
		value, err := effective(l.Name, key)
		if err != nil {
			return out, err
		}
		if value >= least {
			continue
		}
		out = append(out, Finding{
			Subject: l.Name, Status: Problem, What: fmt.Sprintf("%s is %d", key, value), Why: why,
			Mend: []string{fmt.Sprintf("sysctl -w net.ipv4.conf.all.%s=%d", key, least)},
		})
	}
	return unlessFound(out, well("", "%d or more", least)), nil
}
