package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// Block types and limits of pcapng, described by draft-ietf-opsawg-pcapng.
const (
	ngSection   = 0x0a0d0d0a
	ngInterface = 1
	ngPacket    = 2 // obsolete
	ngSimple    = 3
	ngEnhanced  = 6

	ngOrderMagic    = 0x1a2b3c4d
	ngBlockMin      = 12
	ngBlockMax      = 16 << 20
	ngOptionName    = 2
	ngOptionTSUnit  = 9
	ngOptionTSShift = 14
)

// pcapng reads the blocks of a pcapng file; those that hold no packets are
// stepped over.
type pcapng struct {
	r          io.Reader
	order      binary.ByteOrder
	interfaces []ngIface
	head       [8]byte
	buf        []byte
	last       time.Time // of the last packet that had one, else of 1970
}

// ngIface is what an interface description says about its packets.
type ngIface struct {
	link      linkType
	snap      uint32
	perSecond uint64 // units of time stamps
	shift     int64  // seconds to add to them
	left      bool   // its packets have been through the program: see leftSuffix
}

// leftSuffix ends the names of the interfaces that `l4lbd capture` gives the packets
// as the program sent them, each beside what it came in as.
const leftSuffix = " out (l4lb)"

func newPcapng(r io.Reader) (*pcapng, error) {
	n := &pcapng{r: r, last: time.Unix(0, 0)}
	if _, _, err := n.block(); err != nil {
		if errors.Is(err, errTruncated) {
			err = errors.New("the file ends inside its header: truncated")
		}
		return nil, err
	}
	return n, nil
}

// nanoseconds is true: interfaces may differ, and this loses nothing.
func (n *pcapng) nanoseconds() bool { return true }

func (n *pcapng) next() (packet, error) {
	for {
		kind, body, err := n.block()
		if err != nil {
			return packet{}, err
		}
		switch kind {
		case ngInterface:
			err = n.addInterface(body)
		case ngEnhanced, ngPacket, ngSimple:
			var p packet
			if p, err = n.packet(kind, body); !p.left {
				return p, err
			}
		}
		if err != nil {
			return packet{}, err
		}
	}
}

// block reads one block. A section header takes effect at once.
func (n *pcapng) block() (kind uint32, body []byte, err error) {
	if err := readFull(n.r, n.head[:]); err != nil {
		return 0, nil, err
	}
	skip := 0
	if binary.BigEndian.Uint32(n.head[:]) == ngSection {
		var magic [4]byte
		if err := readRest(n.r, magic[:]); err != nil {
			return 0, nil, err
		}
		skip = len(magic)
		switch uint32(ngOrderMagic) {
		case binary.LittleEndian.Uint32(magic[:]):
			n.order = binary.LittleEndian
		case binary.BigEndian.Uint32(magic[:]):
			n.order = binary.BigEndian
		default:
			return 0, nil, fmt.Errorf("a section header without byte order: %w", errDamaged)
		}
		n.interfaces = n.interfaces[:0]
	}
	kind = n.order.Uint32(n.head[:])
	size := n.order.Uint32(n.head[4:])
	if size < ngBlockMin+uint32(skip) || size > ngBlockMax || size%4 != 0 {
		return 0, nil, fmt.Errorf("a block of %d bytes: %w", size, errDamaged)
	}
	n.buf = grow(n.buf, int(size)-len(n.head)-skip)
	if err := readRest(n.r, n.buf); err != nil {
		return 0, nil, err
	}
	body = n.buf[:len(n.buf)-4]
	if again := n.order.Uint32(n.buf[len(body):]); again != size {
		return 0, nil, fmt.Errorf("a block of %d bytes that ends as one of %d: %w", size, again, errDamaged)
	}
	if kind == ngSection {
		if len(body) < 12 {
			return 0, nil, fmt.Errorf("a section header of %d bytes: %w", size, errDamaged)
		}
		if major := n.order.Uint16(body); major != 1 {
			return 0, nil, fmt.Errorf("pcapng version %d.%d, only 1.x is known", major, n.order.Uint16(body[2:]))
		}
	}
	return kind, body, nil
}

var errDamaged = errors.New("the file is damaged")

func (n *pcapng) addInterface(body []byte) error {
	if len(body) < 8 {
		return fmt.Errorf("an interface description of %d bytes: %w", len(body), errDamaged)
	}
	i := ngIface{link: linkType(n.order.Uint16(body)), snap: n.order.Uint32(body[4:]), perSecond: 1_000_000}
	for opts := body[8:]; len(opts) >= 4; {
		code, size := n.order.Uint16(opts), int(n.order.Uint16(opts[2:]))
		if code == 0 {
			break
		}
		if opts = opts[4:]; size > len(opts) {
			return fmt.Errorf("an option of %d bytes in %d: %w", size, len(opts), errDamaged)
		}
		if err := i.option(n.order, code, opts[:size]); err != nil {
			return err
		}
		opts = opts[min((size+3)&^3, len(opts)):]
	}
	n.interfaces = append(n.interfaces, i)
	return nil
}

func (i *ngIface) option(order binary.ByteOrder, code uint16, value []byte) error {
	switch {
	case code == ngOptionName:
		i.left = bytes.HasSuffix(value, []byte(leftSuffix))
	case code == ngOptionTSShift && len(value) == 8:
		i.shift = int64(order.Uint64(value))
	case code == ngOptionTSUnit && len(value) == 1:
		exponent := value[0] & 0x7f
		if value[0]&0x80 != 0 && exponent < 64 {
			i.perSecond = 1 << exponent
		} else if value[0]&0x80 == 0 && exponent <= 19 {
			i.perSecond = uint64(math.Pow10(int(exponent)))
		} else {
			return fmt.Errorf("a time stamp resolution of %#x: %w", value[0], errDamaged)
		}
	}
	return nil
}

// time converts a time stamp. The fraction is below perSecond, so the division
// does not overflow.
func (i *ngIface) time(stamp uint64) time.Time {
	hi, lo := bits.Mul64(stamp%i.perSecond, uint64(time.Second))
	nanos, _ := bits.Div64(hi, lo, i.perSecond)
	return time.Unix(int64(stamp/i.perSecond)+i.shift, int64(nanos))
}

// packet decodes a packet block. Simple packets have no time: they come with the
// one before.
func (n *pcapng) packet(kind uint32, body []byte) (packet, error) {
	fixed := 20
	if kind == ngSimple {
		fixed = 4
	}
	if len(body) < fixed {
		return packet{}, fmt.Errorf("a packet block of %d bytes: %w", len(body), errDamaged)
	}
	number, data := uint32(0), body[fixed:]
	switch kind {
	case ngEnhanced:
		number = n.order.Uint32(body)
	case ngPacket:
		number = uint32(n.order.Uint16(body))
	}
	if int64(number) >= int64(len(n.interfaces)) {
		return packet{}, fmt.Errorf("interface %d of %d: %w", number, len(n.interfaces), errDamaged)
	}
	i := &n.interfaces[number]
	if err := i.link.check(); err != nil {
		return packet{}, fmt.Errorf("interface %d: %w", number, err)
	}
	if kind == ngSimple {
		length := n.order.Uint32(body)
		captured := min(length, uint32(len(data)))
		if i.snap != 0 {
			captured = min(captured, i.snap)
		}
		return packet{time: n.last, link: i.link, data: data[:captured], length: int(length)}, nil
	}
	captured, length := n.order.Uint32(body[12:]), n.order.Uint32(body[16:])
	if int64(captured) > int64(len(data)) || captured > maxCaptured {
		return packet{}, fmt.Errorf("a packet of %d bytes in a block of %d: %w", captured, len(data), errDamaged)
	}
	n.last = i.time(uint64(n.order.Uint32(body[4:]))<<32 | uint64(n.order.Uint32(body[8:])))
	return packet{
		time: n.last, link: i.link, data: data[:captured], length: max(int(length), int(captured)), left: i.left,
	}, nil
}
