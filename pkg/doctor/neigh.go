package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// way is how frames reach a backend.
type way struct {
	link *netlink.LinkAttrs
	via  netip.Addr // the router, or the backend itself
	mac  [6]byte
	mtu  int
	// source is this host's address towards it; not valid where it has none.
	source netip.Addr
}

// checkNeighbours finds the way to each backend and whether somebody is at its
// end. It asks on the wire: what the kernel remembers may be old.
func checkNeighbours(ctx context.Context, g *gateway) ([]Finding, error) {
	peers := g.peers()
	out, err := g.findWays(peers)
	if err != nil {
		return out, err
	}
	if err := g.resolve(ctx); err != nil {
		return out, err
	}
	for _, p := range peers {
		w, known := g.ways[p.addr]
		if known && w.mac == [6]byte{} {
			delete(g.ways, p.addr)
			out = append(out, silentFinding(p, w))
		}
	}
	return unlessFound(out, well("", "%d backends answer", len(g.ways))), nil
}

// findWays asks the kernel for routes. Interfaces that are down were reported
// where they are configured.
func (g *gateway) findWays(peers []peer) ([]Finding, error) {
	var out []Finding
	for _, p := range peers {
		r, err := routeTo(g.nl, p.addr)
		if err != nil && !errors.Is(err, errNoRoute) {
			return out, err
		}
		f := Finding{Subject: p.String(), Status: Problem, Why: "no frame can be sent to it: it gets no traffic"}
		switch {
		case err != nil && len(g.down) > 0:
			// The routes of an interface go with it.
			continue
		case err != nil:
			f.What = "there is no route to it"
			f.Mend = []string{fmt.Sprintf("ip route add %s dev %s", netip.PrefixFrom(p.addr, p.addr.BitLen()), g.Config.Gateway.Interfaces[0])}
		case r.Type == unix.RTN_LOCAL:
			f.What, f.Why = "it is an address of this host", "a gateway is no backend of its own"
			f.Mend = []string{"ip addr show to " + p.addr.String()}
		default:
			if f, ok := g.addWay(p, &r, f); !ok {
				out = append(out, f)
			}
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// addWay takes a route over; with ok false the finding says why not.
func (g *gateway) addWay(p peer, r *netlink.Route, f Finding) (_ Finding, ok bool) {
	l, err := g.nl.LinkByIndex(r.LinkIndex)
	if err != nil {
		f.What, f.Mend = "its route leads to an interface that is gone", []string{"ip route get " + p.addr.String()}
		return f, false
	}
	a := l.Attrs()
	if g.down[a.Name] {
		return f, true
	}
	if bad := linkFinding(a.Name, a); bad.Status != OK {
		g.down[a.Name] = true
		f.What, f.Mend = fmt.Sprintf("%s, by which it is reached: %s", a.Name, bad.What), bad.Mend
		return f, false
	}
	w := way{link: a, via: p.addr, mtu: a.MTU}
	if via, ok := netip.AddrFromSlice(r.Gw); ok {
		w.via = via.Unmap()
	}
	if via, isVia := r.Via.(*netlink.Via); isVia {
		w.via, _ = netip.AddrFromSlice(via.Addr)
	}
	if source, ok := netip.AddrFromSlice(r.Src); ok {
		w.source = source.Unmap()
	}
	if r.MTU > 0 {
		w.mtu = min(w.mtu, r.MTU)
	}
	g.ways[p.addr] = w
	return f, true
}

// resolve asks for the next hops of all ways.
func (g *gateway) resolve(ctx context.Context) error {
	pinned, err := g.pinnedNeighbours()
	if err != nil {
		return err
	}
	type hop struct {
		link int
		via  netip.Addr
	}
	links, questions := map[int]*netlink.LinkAttrs{}, map[int][]netip.Addr{}
	for _, w := range g.ways {
		links[w.link.Index] = w.link
		if !slices.Contains(questions[w.link.Index], w.via) {
			questions[w.link.Index] = append(questions[w.link.Index], w.via)
		}
	}
	macs := map[hop][6]byte{}
	for _, index := range slices.Sorted(maps.Keys(links)) {
		found, err := ask(ctx, g.nl, links[index], questions[index], true)
		if err != nil {
			return err
		}
		for a, list := range found {
			macs[hop{index, a}] = list[0]
		}
	}
	for addr, w := range g.ways {
		w.mac = macs[hop{w.link.Index, w.via}]
		if mac, ok := pinned[w.via]; ok && w.mac == [6]byte{} {
			w.mac = mac
		}
		g.ways[addr] = w
	}
	return nil
}

// pinnedNeighbours are those that somebody entered by hand.
func (g *gateway) pinnedNeighbours() (map[netip.Addr][6]byte, error) {
	out := map[netip.Addr][6]byte{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := dump(func() ([]netlink.Neigh, error) { return g.nl.NeighList(0, family) })
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
		for i := range list {
			n := &list[i]
			a, ok := netip.AddrFromSlice(n.IP)
			if ok && n.State&netlink.NUD_PERMANENT != 0 && len(n.HardwareAddr) == 6 {
				out[a.Unmap()] = [6]byte(n.HardwareAddr)
			}
		}
	}
	return out, nil
}

func silentFinding(p peer, w way) Finding {
	f := Finding{
		Subject: p.String(), Status: Problem, Why: "no frame can be sent to it: it gets no traffic",
		What: fmt.Sprintf("nobody answers for %s on %s", w.via, w.link.Name),
		On:   p.on(),
		Mend: []string{"ip -br link show", "ip -br addr show to " + p.addr.String()},
	}
	if w.via != p.addr {
		f.What = fmt.Sprintf("nobody answers for its router %s on %s", w.via, w.link.Name)
		f.On, f.Mend = "", []string{"ip route get " + p.addr.String(), "ping -c 3 " + w.via.String()}
	}
	return f
}

// checkVIPAnswers asks on the wire who has each VIP. The gateway's own program
// does not see the question, so whoever answers is somebody else.
func checkVIPAnswers(ctx context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	names := append(slices.Clone(g.Config.Gateway.Interfaces), g.towardsBackends()...)
	slices.Sort(names)
	questions := slices.DeleteFunc(g.vips(), func(a netip.Addr) bool { return g.onHost[a] })
	asked := 0
	for _, name := range slices.Compact(names) {
		l, err := g.link(name)
		if err != nil {
			return out, err
		}
		if l == nil || g.down[name] {
			continue
		}
		found, err := ask(ctx, g.nl, l, questions, false)
		if err != nil {
			return out, err
		}
		asked++
		for _, vip := range slices.SortedFunc(maps.Keys(found), netip.Addr.Compare) {
			for _, mac := range found[vip] {
				out = append(out, g.answerFinding(vip, l.Name, mac))
			}
		}
	}
	if asked == 0 {
		return []Finding{{Status: Note, What: "no interface to ask on"}}, nil
	}
	return unlessFound(out, well("", "nobody else")), nil
}

func (g *gateway) answerFinding(vip netip.Addr, iface string, mac [6]byte) Finding {
	f := Finding{
		Subject: vip.String(), Status: Warning,
		What: fmt.Sprintf("a host with the link address %s answers for it on %s", macString(mac), iface),
		Why:  "packets of clients go to whoever answers; another gateway of the VIP may, and nobody else",
		Mend: []string{"ip neigh show | grep -i " + macString(mac)},
	}
	for _, p := range g.peers() {
		w, ok := g.ways[p.addr]
		if !ok || w.mac != mac || w.via != p.addr || p.addr.Is4() != vip.Is4() {
			continue
		}
		f.Status, f.On = Problem, p.on()
		f.Why = "it takes the VIP from the gateway: clients that believe it are not balanced, and lose their connections"
		if vip.Is4() {
			f.What = fmt.Sprintf("%s answers ARP for it", p)
			f.Mend = arpMend()
		} else {
			f.What = fmt.Sprintf("%s answers neighbour discovery for it: the VIP is on its interface instead of lo", p)
			f.Mend = []string{"ip -6 addr show to " + vip.String(), addCommand(vip)}
		}
		break
	}
	return f
}
