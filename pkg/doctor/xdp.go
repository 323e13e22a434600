package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

func checkXDP(_ context.Context, g *gateway) ([]Finding, error) {
	links, err := g.links()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, l := range links {
		if l.Xdp != nil && l.Xdp.Attached {
			out = append(out, g.holderFinding(l))
		} else if g.Config.Gateway.XDPMode == lb.XDPGeneric {
			out = append(out, well(l.Name, "free; generic mode works on every driver"))
		} else {
			out = append(out, driverFinding(l.Name, driver(l.Name), xdpFeatures(l.Index)))
		}
	}
	return out, nil
}

// holderFinding judges the program that is on an interface.
func (g *gateway) holderFinding(l *netlink.LinkAttrs) Finding {
	id := ebpf.ProgramID(l.Xdp.ProgId)
	mode, want := attached(l), g.Config.Gateway.XDPMode
	switch owner := g.owner(l.Name, id); {
	case owner == g.Config.Gateway.Name && mode != want:
		return Finding{
			Subject: l.Name, Status: Problem, What: fmt.Sprintf("the program runs in %s mode, and %s is configured", mode, want),
			Why:  "the mode is changed by a restart only",
			Mend: []string{"systemctl restart l4lbd"},
		}
	case owner == g.Config.Gateway.Name:
		return well(l.Name, "this gateway has it, in %s mode", mode)
	case owner != "":
		return Finding{
			Subject: l.Name, Status: Problem, What: fmt.Sprintf("gateway %s of this host has XDP on it, by program %d", owner, id),
			Why:  "an interface belongs to one gateway: this one cannot attach its program",
			Mend: []string{fmt.Sprintf("rm -r %s", filepath.Join(g.BPFDir, "l4lb", owner))},
		}
	}
	return Finding{
		Subject: l.Name, Status: Problem, What: fmt.Sprintf("another program has XDP on it: %s", programName(id)),
		Why:  "an interface has one XDP program: this gateway cannot attach its own",
		Mend: []string{detachCommand(l, id)},
	}
}

// owner is the gateway whose pinned link holds a program on an interface, ""
// for none.
func (g *gateway) owner(iface string, id ebpf.ProgramID) string {
	pins, _ := filepath.Glob(filepath.Join(g.BPFDir, "l4lb", "*", "link-"+iface))
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			continue
		}
		info, err := l.Info()
		l.Close()
		if err == nil && info.Program == id {
			return filepath.Base(filepath.Dir(pin))
		}
	}
	return ""
}

// programName is what the kernel knows of a program.
func programName(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fmt.Sprintf("program %d", id)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name == "" {
		return fmt.Sprintf("program %d", id)
	}
	return fmt.Sprintf("program %d (%s)", id, info.Name)
}

// detachCommand takes a program off: one that a link holds by the link, any
// other by the interface.
func detachCommand(l *netlink.LinkAttrs, id ebpf.ProgramID) string {
	var links link.Iterator
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.Program != id {
			continue
		}
		if x := info.XDP(); x != nil && int(x.Ifindex) == l.Index {
			return fmt.Sprintf("bpftool link detach id %d", info.ID)
		}
	}
	hook := "xdpdrv"
	if attached(l) == lb.XDPGeneric {
		hook = "xdpgeneric"
	}
	return fmt.Sprintf("ip link set dev %s %s off", l.Name, hook)
}

// nativeDrivers are known to run XDP in the driver, XDP_TX included. They count
// where the kernel cannot be asked (before 6.3).
var nativeDrivers = []string{
	"bnxt_en", "ena", "gve", "i40e", "ice", "igb", "igc", "ixgbe", "mlx4_en", "mlx5_core", "veth", "virtio_net",
}

// driverFinding judges a driver that has no program on it. Trying would be
// surer, and would interrupt the traffic of many drivers.
func driverFinding(iface, driver string, features features) Finding {
	mend := "set xdpMode: generic in l4lb.gateway"
	switch {
	case features.known && features.bits&featureBasic == 0:
		return Finding{
			Subject: iface, Status: Problem, What: fmt.Sprintf("the driver %s has no native XDP", driver),
			Why:  "the daemon does not start with xdpMode: native, and never falls back by itself",
			Mend: []string{mend},
		}
	case features.known && features.bits&featureTransmit == 0:
		return Finding{
			Subject: iface, Status: Note, What: fmt.Sprintf("the driver %s takes no packets that came in by another interface yet", driver),
			Why: "it may do so once the program is attached; else backends behind it are reached by the interface that clients use only",
		}
	case features.known:
		return well(iface, "free, the driver %s has native XDP", driver)
	case slices.Contains(nativeDrivers, driver):
		return well(iface, "free, the driver %s is known to have native XDP", driver)
	}
	return Finding{
		Subject: iface, Status: Warning, What: fmt.Sprintf("it is not known whether the driver %s has native XDP", driver),
		Why:  "where it has none the daemon does not start",
		Mend: []string{mend},
	}
}

// driver names an interface's driver, "" where the kernel does not say.
func driver(iface string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, iface)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(info.Driver[:]), "\x00")
}

// Of linux/netdev.h.
const (
	netdevFamily      = "netdev"
	netdevDevGet      = 1
	netdevIfindex     = 1
	netdevXDPFeatures = 3

	featureBasic    = 1
	featureTransmit = 4
	featureBuffers  = 32 // of frames longer than a page
)

// features is what a driver says that it can do.
type features struct {
	bits  uint64
	known bool
}

// genericHeader is that of a generic netlink message: command, version and two
// reserved bytes that the kernel wants to be 0. nl.Genlmsg has two bytes only
// and sends whatever follows it in memory.
type genericHeader [nl.SizeofGenlmsg]byte

// Len and Serialize implement nl.NetlinkRequestData.
func (h genericHeader) Len() int { return len(h) }

// Serialize gives the bytes as they are sent.
func (h genericHeader) Serialize() []byte { return h[:] }

// xdpFeatures asks the kernel, which can say since 6.3.
func xdpFeatures(ifindex int) (f features) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return f
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddData(genericHeader{netdevDevGet, 1})
	req.AddData(nl.NewRtAttr(netdevIfindex, binary.NativeEndian.AppendUint32(nil, uint32(ifindex))))
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(messages) == 0 || len(messages[0]) < nl.SizeofGenlmsg {
		return f
	}
	attrs, err := nl.ParseRouteAttr(messages[0][nl.SizeofGenlmsg:])
	if err != nil {
		return f
	}
	for _, a := range attrs {
		if a.Attr.Type == netdevXDPFeatures && len(a.Value) == 8 {
			return features{binary.NativeEndian.Uint64(a.Value), true}
		}
	}
	return f
}
