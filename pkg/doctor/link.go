package doctor

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

func checkInterfaces(_ context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	for _, name := range g.Config.Gateway.Interfaces {
		l, err := g.link(name)
		if err != nil {
			return out, err
		}
		f := linkFinding(name, l)
		if f.Status != OK {
			g.down[name] = true
		}
		out = append(out, f)
	}
	return out, nil
}

// linkFinding judges an interface; l is nil where it does not exist.
func linkFinding(name string, l *netlink.LinkAttrs) Finding {
	f := Finding{Subject: name, Status: Problem, Why: "nothing arrives there, and nothing leaves"}
	switch {
	case l == nil:
		f.What, f.Why = "there is no such interface", "the daemon will not start"
		f.Mend = []string{"ip -br link show"}
	case len(l.HardwareAddr) != 6 || l.EncapType != "ether":
		f.What, f.Why = "it is not an Ethernet interface", "the program forwards Ethernet frames: attach it to the device below"
		f.Mend = []string{"ip -br link show"}
	case l.RawFlags&unix.IFF_UP == 0:
		f.What, f.Mend = "the interface is down", []string{"ip link set dev " + name + " up"}
	case l.RawFlags&unix.IFF_RUNNING == 0:
		f.What, f.Mend = "the interface has no carrier: the cable, the switch's port, or the other end", []string{"ethtool " + name}
	default:
		return well(name, "up, %s", l.HardwareAddr)
	}
	return f
}

func checkMTU(_ context.Context, g *gateway) ([]Finding, error) {
	links, err := g.links()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, l := range links {
		if f, small := g.tunnelNote(l); small {
			out = append(out, f)
		}
		if l.MTU > lb.PageMTU && g.Config.Gateway.XDPMode == lb.XDPNative {
			out = append(out, jumboFinding(l, driver(l.Name), xdpFeatures(l.Index)))
			continue
		}
		out = append(out, well(l.Name, "MTU %d", l.MTU))
	}
	return out, nil
}

// jumboFinding judges an interface whose packets may be longer than a page.
func jumboFinding(l *netlink.LinkAttrs, driver string, features features) Finding {
	f := Finding{
		Subject: l.Name, Status: Warning, What: fmt.Sprintf("an MTU of %d is more than a page holds, and it is not known whether the driver %s hands over frames in several buffers", l.MTU, driver),
		Why:  "where it does not, it refuses native XDP and the daemon does not start",
		Mend: []string{fmt.Sprintf("ip link set dev %s mtu %d", l.Name, lb.PageMTU)},
	}
	switch {
	case attached(l) == lb.XDPNative:
		return well(l.Name, "MTU %d, and the driver takes it", l.MTU)
	case features.known && features.bits&featureBuffers != 0:
		return well(l.Name, "MTU %d: the driver %s hands over frames in several buffers", l.MTU, driver)
	case features.known:
		f.What = fmt.Sprintf("an MTU of %d is more than a page holds, and the driver %s hands over no frames in several buffers", l.MTU, driver)
		f.Why = "it refuses native XDP, and the daemon does not start"
	}
	return f
}

// tunnelNote says that clients' packets may not fit through a tunnel.
func (g *gateway) tunnelNote(l *netlink.LinkAttrs) (Finding, bool) {
	most, kind := 0, lb.ForwardL2
	for i := range g.Config.Services {
		s := &g.Config.Services[i]
		for _, b := range g.Config.Backends(s) {
			if n := overheadOf(s.Forwarding, b.Addr.Is6()); n > most {
				most, kind = n, s.Forwarding
			}
		}
	}
	const usual = 1500 // what clients send at most
	if most == 0 || l.MTU >= usual+most {
		return Finding{}, false
	}
	return Finding{
		Subject: l.Name, Status: Note, What: fmt.Sprintf("%s adds %d bytes, so packets of %d bytes do not fit an MTU of %d", kind, most, usual, l.MTU),
		Why:  "clients that send such are told to send less, which costs each a round trip, and does not reach all",
		Mend: []string{fmt.Sprintf("ip link set dev %s mtu %d", l.Name, usual+most)},
	}, true
}

// overheadOf is what outer headers take, in bytes.
func overheadOf(kind lb.Forwarding, ipv6 bool) int {
	outer := 20
	if ipv6 {
		outer = 40
	}
	switch kind {
	case lb.ForwardIPIP:
		return outer
	case lb.ForwardGUE:
		return outer + 8
	case lb.ForwardGENEVE:
		return outer + 16
	}
	return 0
}

// attached is the mode of the XDP program on an interface, "" for none.
func attached(l *netlink.LinkAttrs) lb.XDPMode {
	const skb = 2 // XDP_ATTACHED_SKB of linux/if_link.h
	switch {
	case l.Xdp == nil || !l.Xdp.Attached:
		return ""
	case l.Xdp.AttachMode == skb:
		return lb.XDPGeneric
	}
	return lb.XDPNative
}
