package netns

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// tunnelKinds are the values of l4lb.forwarding, and what decap counts them as.
var tunnelKinds = map[string]string{"IPIP": "ip", "GUE": "gue", "GENEVE": "geneve"}

// remoteNetwork has two backends that a router is before, and the settings that
// lead to them through tunnels of a kind.
func remoteNetwork(t *testing.T, kind string) (*network, settings) {
	t.Helper()
	n := newNetwork(t)
	n.addRemote("a8", 8)
	n.addRemote("b8", 8)
	return n, settings{backends: []string{"a8", "b8"}, service: "  l4lb: {forwarding: " + kind + "}\n"}
}

// across has tunnels end at the address of the other family.
func across(b *backend, ipv6 bool) string {
	if ipv6 {
		return fmt.Sprintf(", l4lb: {tunnelAddress: %s}", b.v4)
	}
	return fmt.Sprintf(", l4lb: {tunnelAddress: %q}", b.v6)
}

// Connections and datagrams reach backends a router away through each kind of
// tunnel, in every mix of families; answers come to the client directly.
func TestBackendsARouterAway(t *testing.T) {
	for kind := range tunnelKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n, s := remoteNetwork(t, kind)
			remotes := []*backend{n.backends["a8"], n.backends["b8"]}
			for _, b := range remotes {
				b.startDecap(t)
			}
			g := startGateway(n, s)
			for _, f := range families {
				n.wantThroughTunnel(t, f, kind, f.ipv6, remotes)
			}
			s.endpoint = across
			g.reload(s)
			g.settled()
			for _, f := range families {
				n.wantThroughTunnel(t, f, kind, !f.ipv6, remotes)
			}
		})
	}
}

// wantThroughTunnel makes connections, a transfer and datagrams, and looks at the
// frames between gateway and router.
func (n *network) wantThroughTunnel(t *testing.T, f family, kind string, outer6 bool, remotes []*backend) {
	t.Helper()
	before := map[*backend]map[string]uint64{}
	for _, b := range remotes {
		before[b] = b.outcomes(t)
	}
	download, name := n.startDownload(f, inNoZone)
	x := n.startExchange(f, inNoZone)
	answering := x.next(t)
	wire := n.openWire()
	got := n.spread(f, inNoZone, 16)
	for _, b := range remotes {
		if got[b.name] == 0 {
			t.Errorf("%s: no connection came to %s: %v", f.name, b.name, got)
		}
	}
	n.wantOuter(t, wire, f, kind, outer6)
	n.wantUpload(t, f)
	download.finish(t, name)
	x.finish(t, answering)
	for _, b := range remotes {
		for outcome, frames := range b.outcomes(t) {
			grown := frames - before[b][outcome]
			if wanted := outcome == tunnelKinds[kind]; outcome != "other" && wanted != (grown > 0) {
				t.Errorf("%s, %s: %s grew by %d", f.name, b.name, outcome, grown)
			}
		}
	}
}

// wantUpload sends segments that are too long for the tunnel at first.
func (n *network) wantUpload(t *testing.T, f family) {
	t.Helper()
	conn, err := n.talk(f, inNoZone)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.Repeat("l4lb", 10_000)+"\n"); err != nil {
		t.Error(err)
	}
	if name, err := conn.who(); err != nil {
		t.Errorf("%s: no answer after 40 kB: %q, %v", f.name, name, err)
	}
}

// wantOuter looks at the frames that the gateway sent for one client: each is a
// tunnel of the kind from its own address to a backend. No answer passes here.
func (n *network) wantOuter(t *testing.T, w *wire, f family, kind string, outer6 bool) {
	t.Helper()
	gateway := n.gateway.MAC("eth0")
	client := inNoZone.addr(f)
	seen := 0
	w.collect(func(p gopacket.Packet) bool {
		eth, _ := p.LinkLayer().(*layers.Ethernet)
		outer := p.NetworkLayer()
		if eth == nil || outer == nil {
			return false
		}
		src, _ := netip.AddrFromSlice(outer.NetworkFlow().Src().Raw())
		dst, _ := netip.AddrFromSlice(outer.NetworkFlow().Dst().Raw())
		if src == f.vip && dst == client && p.TransportLayer() != nil {
			t.Errorf("an answer goes by the gateway's link:\n%s", testutil.Dump(p.Data()))
		}
		inner := innerPacket(p, kind)
		if eth.SrcMAC.String() != gateway.String() || inner == nil || inner.NetworkLayer() == nil {
			return false
		}
		innerSrc, _ := netip.AddrFromSlice(inner.NetworkLayer().NetworkFlow().Src().Raw())
		if innerSrc != client {
			return false // a probe
		}
		seen++
		n.wantOuterHeader(t, p, inner, f, outer6)
		return true
	})
	if seen == 0 {
		t.Errorf("%s: no tunnel of kind %s left the gateway", f.name, kind)
	}
}

func (n *network) wantOuterHeader(t *testing.T, p, inner gopacket.Packet, f family, outer6 bool) {
	t.Helper()
	flow := p.NetworkLayer().NetworkFlow()
	src, _ := netip.AddrFromSlice(flow.Src().Raw())
	dst, _ := netip.AddrFromSlice(flow.Dst().Raw())
	known := false
	for _, name := range []string{"a8", "b8"} {
		known = known || dst == netip.MustParseAddr(n.backends[name].addr(family{ipv6: outer6}))
	}
	innerDst, _ := netip.AddrFromSlice(inner.NetworkLayer().NetworkFlow().Dst().Raw())
	if !slices.Contains(tunnelSources, src.String()) || !known || innerDst != f.vip {
		t.Errorf("from %s to %s, inside to %s:\n%s", src, dst, innerDst, testutil.Dump(p.Data()))
	}
}

// innerPacket is what is in a tunnel of the kind, nil for another packet.
func innerPacket(p gopacket.Packet, kind string) gopacket.Packet {
	var payload []byte
	switch outer := p.NetworkLayer().(type) {
	case *layers.IPv4:
		payload = outer.Payload
		if kind == "IPIP" && outer.Protocol != layers.IPProtocolIPv4 && outer.Protocol != layers.IPProtocolIPv6 {
			return nil
		}
	case *layers.IPv6:
		payload = outer.Payload
		if kind == "IPIP" && outer.NextHeader != layers.IPProtocolIPv4 && outer.NextHeader != layers.IPProtocolIPv6 {
			return nil
		}
	}
	if kind != "IPIP" {
		udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		port := map[string]layers.UDPPort{"GUE": 6080, "GENEVE": 6081}[kind]
		if udp == nil || udp.DstPort != port {
			return nil
		}
		payload = udp.Payload
	}
	if kind == "GENEVE" && len(payload) > 8 {
		payload = payload[8:]
	}
	if len(payload) == 0 {
		return nil
	}
	if payload[0]>>4 == 6 {
		return gopacket.NewPacket(payload, layers.LayerTypeIPv6, gopacket.Default)
	}
	return gopacket.NewPacket(payload, layers.LayerTypeIPv4, gopacket.Default)
}
