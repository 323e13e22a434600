package decap

import (
	"fmt"
	"testing"

	"l4lb/internal/testutil"
)

// ecn sets the ECN field beside a DSCP that must stay.
func ecn(field int) testutil.Mutate {
	const dscp = 0x28 << 2
	return func(p *testutil.Packet) {
		if p.IP4 != nil {
			p.IP4.TOS = dscp | uint8(field)
		} else {
			p.IP6.TrafficClass, p.IP6.FlowLabel = dscp|uint8(field), 0xabcde
		}
	}
}

// The table of RFC 6040, section 4.2, figure 4.
func TestCongestionIsToldAsRFC6040Says(t *testing.T) {
	const notECT, ect1, ect0, ce, drop = 0, 1, 2, 3, -1
	table := []struct{ inner, outer, want int }{
		{notECT, notECT, notECT},
		{notECT, ect0, notECT},
		{notECT, ect1, notECT},
		{notECT, ce, drop},
		{ect0, notECT, ect0},
		{ect0, ect0, ect0},
		{ect0, ect1, ect1},
		{ect0, ce, ce},
		{ect1, notECT, ect1},
		{ect1, ect0, ect1},
		{ect1, ect1, ect1},
		{ect1, ce, ce},
		{ce, notECT, ce},
		{ce, ect0, ce},
		{ce, ect1, ce},
		{ce, ce, ce},
	}
	d := newFixture(t)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		for _, row := range table {
			t.Run(fmt.Sprintf("inner %d outer %d", row.inner, row.outer), func(t *testing.T) {
				outer := func(p *testutil.Packet) {
					if p.IP4 != nil {
						p.IP4.TOS = uint8(row.outer)
					} else {
						p.IP6.TrafficClass = uint8(row.outer)
					}
				}
				in := w.make(t, src, dst, packetOf(innerOf(t, inner6, ecn(row.inner))), outer)
				if row.want == drop {
					expect(t, d, in, xdpDrop, nil, "congested_not_ect")
					return
				}
				expect(t, d, in, xdpPass, innerOf(t, inner6, ecn(row.want)), w.counted)
			})
		}
	})
}
