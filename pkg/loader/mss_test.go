package loader

import (
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
)

// options are TCP options: no-operations, and before or behind them what is told.
func options(list ...layers.TCPOption) testutil.Mutate {
	return func(p *testutil.Packet) { p.TCP.Options = list }
}

func mss(n int) layers.TCPOption {
	return layers.TCPOption{
		OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: binary.BigEndian.AppendUint16(nil, uint16(n)),
	}
}

var (
	nop       = layers.TCPOption{OptionType: layers.TCPOptionKindNop, OptionLength: 1}
	end       = layers.TCPOption{OptionType: layers.TCPOptionKindEndList, OptionLength: 1}
	sackOK    = layers.TCPOption{OptionType: layers.TCPOptionKindSACKPermitted, OptionLength: 2}
	scale     = layers.TCPOption{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{7}}
	timestamp = layers.TCPOption{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)}
)

// The segment size of a handshake is brought down to what fits, wherever it
// stands among the options; nothing else changes. The frame with the size that
// is wanted is built anew, its checksum too.
func TestSegmentSizesAreClamped(t *testing.T) {
	type list = []layers.TCPOption
	tests := []struct {
		name      string
		flags     string
		before    list
		told      int // 0: none
		unclamped bool
	}{
		{name: "alone", flags: "S", told: 1460},
		{name: "in an answer", flags: "SA", told: 1460},
		{name: "of a jumbo link", flags: "S", told: 8960},
		{name: "the largest", flags: "S", told: 65535},
		{name: "at an odd place", flags: "S", before: list{nop}, told: 1460},
		{name: "behind others", flags: "S", before: list{sackOK, timestamp, nop, scale}, told: 9000},
		{name: "at the end of the longest header", flags: "S", before: list{timestamp, timestamp, timestamp, sackOK, scale, nop}, told: 1460},
		{name: "behind as many as there can be", flags: "S", before: list{
			nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop,
			nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop, nop,
		}, told: 1460},
		{name: "behind the end of the options", flags: "S", before: list{end}, told: 1460, unclamped: true},
		{name: "small enough", flags: "S", told: 536, unclamped: true},
		{name: "none", flags: "S", before: list{sackOK, scale}},
		{name: "in another segment", flags: "A", told: 1460, unclamped: true},
	}
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		d := newFixture(t)
		prepareManyRuns(t, d)
		c.open(t, d)
		changeMember(t, d, memberA, func(m *Member) { m.Tunnel.Flags |= encap.FlagClampMSS })
		fits := c.fits() - 40
		if c.inner6 {
			fits -= 20
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				forgetFlows(d)
				told, clamped := tt.before, tt.before
				if tt.told != 0 {
					told = append(append(list{}, tt.before...), mss(tt.told))
					clamped = told
					if !tt.unclamped {
						clamped = append(append(list{}, tt.before...), mss(fits))
					}
				}
				f, flow := c.web(t, testutil.Flags(tt.flags))
				event := newOther
				if tt.flags == "S" {
					event = newSYN
				}
				want := started(memberA, ruleTCP80, 0, event)
				want.out = c.around(t, f(options(clamped...)), flow)
				send(t, d, raw(f(options(told...))), want)
			})
		}
	})
}

// Without the flag, and in what is no whole TCP header, sizes stay.
func TestSegmentSizesAreLeftAlone(t *testing.T) {
	d := newFixture(t)
	c := tunnelCase{kind: lb.ForwardIPIP}
	c.open(t, d)
	f, flow := c.web(t, testutil.Flags("S"), options(mss(1460)))
	want := started(memberA, ruleTCP80, 0, newSYN)
	want.out = c.around(t, f(), flow)
	send(t, d, f, want)

	changeMember(t, d, memberA, func(m *Member) { m.Tunnel.Flags |= encap.FlagClampMSS })
	noLength := f(options(layers.TCPOption{OptionType: 200, OptionLength: 2}, mss(1460)))
	noLength[14+40+1] = 0
	for name, broken := range map[string]frame{
		"a header longer than the packet": raw(f(func(p *testutil.Packet) { p.TCP.DataOffset, p.KeepLengths = 15, true; p.IP4.IHL, p.IP4.Length = 5, 44 })),
		"an option of no length":          raw(noLength),
	} {
		t.Run(name, func(t *testing.T) {
			forgetFlows(d)
			want.out = c.around(t, broken(), flow)
			send(t, d, broken, want)
		})
	}
}
