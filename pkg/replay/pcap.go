package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	pcapMicroseconds = 0xa1b2c3d4
	pcapNanoseconds  = 0xa1b23c4d
	pcapHeader       = 24
	pcapRecord       = 16
	pcapLinkMask     = 0x03ffffff // above it is the length of check sequences
	// maxCaptured is the longest record that libpcap writes, bytes.
	maxCaptured = 262144
)

// pcap is the classic format, described by draft-ietf-opsawg-pcap.
type pcap struct {
	r     io.Reader
	order binary.ByteOrder
	unit  time.Duration // of a record's fraction of a second
	link  linkType
	head  [pcapRecord]byte
	buf   []byte
}

func newPcap(r io.Reader, order binary.ByteOrder, unit time.Duration) (*pcap, error) {
	var head [pcapHeader]byte
	if err := readRest(r, head[:]); err != nil {
		if errors.Is(err, errTruncated) {
			err = errors.New("the file ends inside its header: truncated")
		}
		return nil, err
	}
	if major := order.Uint16(head[4:]); major != 2 {
		return nil, fmt.Errorf("pcap version %d.%d, only 2.x is known", major, order.Uint16(head[6:]))
	}
	p := &pcap{r: r, order: order, unit: unit, link: linkType(order.Uint32(head[20:]) & pcapLinkMask)}
	return p, p.link.check()
}

func (p *pcap) nanoseconds() bool { return p.unit == time.Nanosecond }

func (p *pcap) next() (packet, error) {
	if err := readFull(p.r, p.head[:]); err != nil {
		return packet{}, err
	}
	captured, length := p.order.Uint32(p.head[8:]), p.order.Uint32(p.head[12:])
	if captured > maxCaptured {
		return packet{}, fmt.Errorf("a record of %d bytes, %d is the most: the file is damaged", captured, maxCaptured)
	}
	p.buf = grow(p.buf, int(captured))
	if err := readRest(p.r, p.buf); err != nil {
		return packet{}, err
	}
	fraction := time.Duration(p.order.Uint32(p.head[4:])) * p.unit
	return packet{
		time: time.Unix(int64(p.order.Uint32(p.head[:])), int64(fraction)),
		link: p.link, data: p.buf, length: max(int(length), len(p.buf)),
	}, nil
}
