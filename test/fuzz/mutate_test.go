package fuzz

import "net/netip"

// largest is the size of the largest frame: one page less what the kernel keeps
// of it.
const largest = 3400

// mutator makes frames out of others. It keeps them interesting: half of the
// time lengths and checksums are mended, and most changes know what a header is.
type mutator struct {
	random
	seeds  [][]byte
	recent [64][]byte // frames that were forwarded lately: what follows them hits
	buf    []byte
}

func newMutator(r random, seeds [][]byte) *mutator {
	m := &mutator{random: r, seeds: seeds, buf: make([]byte, 0, 1<<14)}
	for i := range m.recent {
		m.recent[i] = append(make([]byte, 0, 256), seeds[i%len(seeds)]...)
	}
	return m
}

// next is one more frame; it is valid until the next call.
func (m *mutator) next() []byte {
	from := m.seeds[m.IntN(len(m.seeds))]
	if m.oneIn(3) {
		from = m.recent[m.IntN(len(m.recent))]
	}
	return m.mutate(from)
}

// keep remembers a frame to start from again.
func (m *mutator) keep(frame []byte) {
	if len(frame) < 256 && m.oneIn(8) {
		at := &m.recent[m.IntN(len(m.recent))]
		*at = append((*at)[:0], frame...)
	}
}

func (m *mutator) mutate(frame []byte) []byte {
	m.buf = append(m.buf[:0], frame[:min(len(frame), largest)]...)
	for range m.IntN(4) + m.IntN(2)*m.IntN(3) {
		m.change()
	}
	if m.IntN(2) == 0 {
		mend(m.buf)
	}
	if len(m.buf) < 14 {
		m.buf = append(m.buf, make([]byte, 14-len(m.buf))...)
	}
	return m.buf[:min(len(m.buf), largest)]
}

// change makes one change.
func (m *mutator) change() {
	p := read(m.buf)
	switch n := m.IntN(26); {
	case n == 0:
		m.setByte()
	case n == 1 && len(m.buf) > 1:
		m.buf = m.buf[:1+m.IntN(len(m.buf)-1)]
	case n == 2:
		m.extend()
	case n == 3:
		m.pushTag(&p)
	case n == 4:
		m.popTag(&p)
	case n == 5:
		copy(m.buf, choose(m.random, []byte{2, 0x4c, 0, 0, 0, 9}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{0x33, 0x33, 0xff, 0, 0, 16}, gatewayMAC[:]))
	case n == 6 && len(m.buf) >= 14 && m.oneIn(2):
		copy(m.buf[6:], choose(m.random, []byte{2, 0x4c, 10, 1, 0, 11}, []byte{2, 0x4c, 10, 2, 0, 12}, []byte{2, 0x4c, 0, 0, 0, 0x11}))
	case n == 6:
		m.splice()
	case !p.ip:
		m.setByte()
	case n <= 10:
		m.setAddress(&p, n <= 8)
	case n == 11:
		m.at(p.l3+8-boolInt(p.ipv6), choose[byte](m.random, 0, 1, 2, 64, 255))
	case n == 12:
		m.at(p.l3+9-3*boolInt(p.ipv6), choose[byte](m.random, 1, 6, 17, 58, 132, 50, 51, 47, 0, 43, 44, 60, 59, 4, 41, byte(m.IntN(256))))
	case n == 13:
		m.options(&p)
	case n == 14:
		m.fragment(&p)
	case n == 15:
		m.quote(&p)
	case n == 16:
		m.ports(&p)
	case n == 17 && p.proto == 6:
		m.at(p.l4+13, byte(m.IntN(64)))
	case n == 18:
		m.at(p.l4, choose[byte](m.random, 0, 3, 8, 11, 12, 128, 129, 1, 2, 135, 136)) // an ICMP type
	case n == 19:
		m.swap(&p)
	case n == 20:
		m.lengths(&p)
	default:
		m.at(p.l3+m.IntN(60), byte(m.IntN(256))) // somewhere in the headers
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// at sets a byte that may not be there.
func (m *mutator) at(i int, b byte) {
	if i >= 0 && i < len(m.buf) {
		m.buf[i] = b
	}
}

func (m *mutator) at16(i int, v uint16) {
	m.at(i, byte(v>>8))
	m.at(i+1, byte(v))
}

func (m *mutator) setByte() {
	if len(m.buf) > 0 {
		i := m.IntN(len(m.buf))
		m.buf[i] = choose(m.random, m.buf[i]^1<<m.IntN(8), byte(m.IntN(256)), 0, 0xff)
	}
}

// extend adds a trailer: padding, or more payload once lengths are mended.
func (m *mutator) extend() {
	n := m.IntN(20)
	if m.oneIn(8) {
		n = m.IntN(1600)
	}
	for range n {
		m.buf = append(m.buf, byte(m.IntN(4)))
	}
}

// insert makes room for n zero bytes.
func (m *mutator) insert(i, n int) {
	if i > len(m.buf) {
		return
	}
	m.buf = append(m.buf, make([]byte, n)...)
	copy(m.buf[i+n:], m.buf[i:])
	clear(m.buf[i : i+n])
}

func (m *mutator) pushTag(p *packet) {
	if len(m.buf) < 14 {
		return
	}
	m.insert(12, 4)
	m.at16(12, choose[uint16](m.random, 0x8100, 0x88a8))
	m.at16(14, uint16(m.IntN(4096)))
}

func (m *mutator) popTag(p *packet) {
	if p.tags > 0 && len(m.buf) >= 18 {
		m.buf = append(m.buf[:12], m.buf[16:]...)
	}
}

// splice continues the frame with the end of another.
func (m *mutator) splice() {
	other := m.seeds[m.IntN(len(m.seeds))]
	at := m.IntN(min(len(m.buf), 80) + 1)
	if at < len(other) {
		m.buf = append(m.buf[:at], other[at:]...)
	}
}

func (m *mutator) setAddress(p *packet, destination bool) {
	list, at, size := clients, p.l3+12, 4
	if destination {
		list, at = targets, p.l3+16
	}
	if p.ipv6 {
		at, size = at-4, 16
		if destination {
			at = p.l3 + 24
		}
	}
	var a netip.Addr
	for a = choose(m.random, list...); a.Is6() != p.ipv6; {
		a = choose(m.random, list...)
	}
	if at+size <= len(m.buf) {
		copy(m.buf[at:], a.AsSlice())
	}
}

func (m *mutator) swap(p *packet) {
	at, size := p.l3+12, 4
	if p.ipv6 {
		at, size = p.l3+8, 16
	}
	if at+2*size <= len(m.buf) {
		var t [16]byte
		copy(t[:size], m.buf[at:])
		copy(m.buf[at:at+size], m.buf[at+size:])
		copy(m.buf[at+size:], t[:size])
	}
}

func (m *mutator) ports(p *packet) {
	m.at16(p.l4, uint16(4000+m.IntN(64)))
	m.at16(p.l4+2, choose[uint16](m.random, 80, 443, 53, 22, uint16(m.IntN(1<<16))))
}

// lengths makes lengths wrong.
func (m *mutator) lengths(p *packet) {
	at := p.l3 + 2 + 2*boolInt(p.ipv6)
	if m.oneIn(3) {
		at = p.l4 + 4 // of UDP
	}
	if at+2 <= len(m.buf) {
		m.at16(at, choose(m.random, be.Uint16(m.buf[at:])+uint16(m.IntN(41))-20, uint16(m.IntN(1<<16)), 0, 0xffff))
	}
}
