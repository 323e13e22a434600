package fuzz

// options adds to what is between the IP header and the transport: IPv4 options,
// or an IPv6 extension header of any kind.
func (m *mutator) options(p *packet) {
	if !p.ipv6 {
		header := int(m.buf[p.l3]&0xf) * 4
		n := 4 * (1 + m.IntN(3))
		if header < 20 || header+n > 60 {
			return
		}
		m.insert(p.l3+20, n)
		for i := range n {
			m.at(p.l3+20+i, choose[byte](m.random, 1, 1, 1, 0, 7, 0x94))
		}
		m.at(p.l3, 0x40|byte((header+n)/4))
		return
	}
	kind := choose[byte](m.random, 0, 43, 60, 60, 51, 44)
	units, size := m.IntN(3), 0
	if m.oneIn(20) {
		units = m.IntN(80)
	}
	switch kind {
	case 44:
		size = 8
	case 51:
		units += 2
		size = 8 + 4*units
	default:
		size = 8 + 8*units
	}
	if len(m.buf)+size > largest {
		return
	}
	m.insert(p.l3+40, size)
	at := p.l3 + 40
	m.at(at, m.buf[p.l3+6])
	m.at(p.l3+6, kind)
	if kind == 44 {
		m.at16(at+2, choose[uint16](m.random, 0, 1, 8, 9, uint16(m.IntN(1<<16))))
		m.at(at+7, byte(m.IntN(4)))
		return
	}
	m.at(at+1, byte(units))
	if kind != 51 {
		m.at(at+2, 1) // PadN
		m.at(at+3, byte(min(size-4, 255)))
	}
}

// fragment makes the packet one of a datagram, in no particular order.
func (m *mutator) fragment(p *packet) {
	if p.ipv6 {
		m.options(p) // now and then a fragment header
		return
	}
	m.at16(p.l3+4, uint16(m.IntN(4)))
	m.at16(p.l3+6, choose[uint16](m.random, 0x2000, 0x2000, 0x2001, 0x0001, 0x00b9, 0x4000, 0x6000, 0, uint16(m.IntN(1<<16))))
}

// quote makes the packet an ICMP error about what it was, or about the start of
// another; what is quoted is most often an answer of ours, so it is turned round
// first.
func (m *mutator) quote(p *packet) {
	if len(m.buf) > 1200 {
		return
	}
	if !m.oneIn(4) {
		m.swap(p)
		if p.l4+4 <= len(m.buf) {
			b := m.buf[p.l4:]
			b[0], b[1], b[2], b[3] = b[2], b[3], b[0], b[1]
		}
	}
	keep := len(m.buf) - p.l3
	if m.oneIn(2) {
		keep = min(keep, choose(m.random, 20, 28, 36, 48, 56, m.IntN(80)))
	}
	m.buf = m.buf[:p.l3+keep]
	ipv6 := p.ipv6
	if ipv6 {
		m.insert(p.l3, 48)
		copy(m.buf[p.l3:], []byte{0x60, 0, 0, 0, 0, 0, 58, 64})
		m.at(p.l3+40, choose[byte](m.random, 1, 2, 3, 4, 100))
		m.at16(p.l3+46, choose[uint16](m.random, 0, 1280, 1400))
	} else {
		m.insert(p.l3, 28)
		copy(m.buf[p.l3:], []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, 1})
		m.at(p.l3+20, choose[byte](m.random, 3, 4, 5, 11, 12))
		m.at(p.l3+21, byte(m.IntN(6)))
		m.at16(p.l3+26, choose[uint16](m.random, 0, 576, 1400))
	}
	q := read(m.buf)
	m.setAddress(&q, false)
	m.setAddress(&q, true)
	mend(m.buf)
}

// mend makes lengths and checksums right, as far as there are headers for them.
func mend(b []byte) {
	p := read(b)
	if !p.ip {
		return
	}
	ip := b[p.l3:]
	if p.ipv6 {
		ip[0] = 0x60 | ip[0]&0xf
		be.PutUint16(ip[4:], uint16(len(ip)-40))
	} else {
		if ip[0]&0xf < 5 || int(ip[0]&0xf)*4 > len(ip) {
			ip[0] = 5
		}
		ip[0] = 0x40 | ip[0]&0xf
		be.PutUint16(ip[2:], uint16(len(ip)))
		ip[10], ip[11] = 0, 0
		be.PutUint16(ip[10:], ^sum(0, ip[:int(ip[0]&0xf)*4]))
	}
	p = read(b)
	if !p.lengths || p.fragment {
		return
	}
	t, at, start := p.body(), -1, uint32(0)
	switch {
	case p.proto == 6:
		at, start = 16, p.pseudo(6)
	case p.proto == 17:
		at, start = 6, p.pseudo(17)
		be.PutUint16(t[4:], uint16(len(t)))
	case p.proto == 58 && p.ipv6:
		at, start = 2, p.pseudo(58)
	case p.proto == 1 && !p.ipv6:
		at = 2
	}
	if at < 0 || at+2 > len(t) {
		return
	}
	t[at], t[at+1] = 0, 0
	be.PutUint16(t[at:], ^sum(start, t))
}
