package decap

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"l4lb/pkg/lb"
)

// xdpAttachedSKB is XDP_ATTACHED_SKB of linux/if_link.h.
const xdpAttachedSKB = 2

// ErrNotAttached is returned by Inspect for an interface without the program.
var ErrNotAttached = errors.New("tunnels are not unwrapped here: l4lbd decap does not run on this interface")

// Status is what a program on an interface accepts and has done.
type Status struct {
	Interface string
	Mode      lb.XDPMode
	Gateways  []netip.Prefix
	Addresses []netip.Prefix
	VIPs      []netip.Prefix // empty: all
	Counts    Counts
}

// Inspect reads the program that any process has on an interface, from the
// kernel: there is no other channel to that process.
func Inspect(iface string) (Status, error) {
	dev, err := netlink.LinkByName(iface)
	if err != nil {
		return Status{}, fmt.Errorf("find %s: %w", iface, err)
	}
	xdp := dev.Attrs().Xdp
	if xdp == nil || !xdp.Attached {
		return Status{}, fmt.Errorf("%s: %w", iface, ErrNotAttached)
	}
	maps, err := mapsOf(ebpf.ProgramID(xdp.ProgId))
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	if err != nil {
		return Status{}, fmt.Errorf("%s: %w", iface, err)
	}
	s := Status{Interface: iface, Mode: lb.XDPNative}
	if xdp.AttachMode == xdpAttachedSKB {
		s.Mode = lb.XDPGeneric
	}
	for name, list := range map[string]*[]netip.Prefix{
		decapMapL4lbGateways: &s.Gateways, decapMapL4lbEnds: &s.Addresses, decapMapL4lbInners: &s.VIPs,
	} {
		if maps[name] == nil { // the verifier cut the lookup away
			continue
		}
		if *list, err = ranges(maps[name]); err != nil {
			return Status{}, fmt.Errorf("%s: %w", iface, err)
		}
		slices.SortFunc(*list, netip.Prefix.Compare)
	}
	if s.Counts, err = readCounts(maps[decapMapL4lbOutcomes]); err != nil {
		return Status{}, fmt.Errorf("%s: %w", iface, err)
	}
	return s, nil
}

// mapsOf opens the maps of a program of ours. The caller closes them, also after
// an error.
func mapsOf(id ebpf.ProgramID) (map[string]*ebpf.Map, error) {
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, fmt.Errorf("open program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return nil, fmt.Errorf("describe program %d: %w", id, err)
	}
	if info.Name != decapProgL4lbDecap {
		return nil, fmt.Errorf("%w: there is another program, %s", ErrNotAttached, info.Name)
	}
	ids, _ := info.MapIDs()
	maps := map[string]*ebpf.Map{}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return maps, fmt.Errorf("open map %d: %w", id, err)
		}
		info, err := m.Info()
		if err != nil {
			m.Close()
			return maps, fmt.Errorf("describe map %d: %w", id, err)
		}
		maps[info.Name] = m
	}
	if maps[decapMapL4lbOutcomes] == nil {
		return maps, fmt.Errorf("program %d has no counters", id)
	}
	return maps, nil
}
