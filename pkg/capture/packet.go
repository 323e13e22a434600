package capture

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"

	"l4lb/pkg/loader"
)

// Packet is one captured packet.
type Packet struct {
	ID      uint64 // from 1
	Verdict loader.Verdict
	Reason  loader.Reason
	Flow    loader.TraceFlow
	// Names, "" where there is none.
	Rule, Service, Backend, Zone string
	CPU                          uint32

	In  Frame
	Out Frame // no data where it was not sent
}

// Frame is a packet at one moment.
type Frame struct {
	Interface string
	Time      time.Time
	Data      []byte
	Length    int // of the frame; Data may be less of it
}

// Sent reports whether the packet left the gateway: forwarded, or as an answer.
func (p *Packet) Sent() bool { return len(p.Out.Data) > 0 }

// String is the packet's fate in one line: "TX rule=web backend=a1 flow=HIT".
func (p *Packet) String() string {
	var b strings.Builder
	b.WriteString(p.Verdict.String())
	add := func(key, value string) {
		if value != "" {
			b.WriteString(" " + key + "=" + value)
		}
	}
	add("reason", p.Reason.String())
	add("rule", p.Rule)
	add("service", p.Service)
	add("backend", p.Backend)
	if p.Flow != loader.TraceNone {
		add("flow", p.Flow.String())
	}
	add("zone", p.Zone)
	return b.String()
}

const eventSize = 64

// packet decodes what the programs sent.
func (s *session) packet(sample []byte) (*Packet, error) {
	var e tracerCaptureEvent
	if _, err := binary.Decode(sample, binary.NativeEndian, &e); err != nil {
		return nil, fmt.Errorf("decode captured packet: %w", err)
	}
	frames := sample[eventSize:]
	if uint64(e.InCaptured)+uint64(e.OutCaptured) > uint64(len(frames)) {
		return nil, fmt.Errorf("decode captured packet: %d and %d bytes of frames in %d", e.InCaptured, e.OutCaptured, len(frames))
	}
	p := &Packet{
		Verdict: loader.Verdict(e.Verdict), Reason: loader.Reason(e.Reason), Flow: loader.TraceFlow(e.Flow), CPU: e.Cpu,
		Rule: s.names.rule(e.Rule), Zone: s.names.get(loader.NameZone, uint32(e.Zone)),
		In: Frame{
			Interface: s.interfaceName(e.Ifindex), Time: s.clock.time(e.Arrived),
			Data: frames[:e.InCaptured], Length: int(e.InLength),
		},
	}
	if e.Member != 0 {
		p.Service, p.Backend = s.names.backend(e.Member)
	}
	if e.OutLength > 0 {
		p.Out = Frame{
			Interface: s.interfaceName(e.Egress), Time: s.clock.time(e.Left),
			Data: frames[e.InCaptured:][:e.OutCaptured], Length: int(e.OutLength),
		}
	}
	return p, nil
}

// interfaceName is that of the gateway's interface; one that it only sends to is
// looked for here, which is its namespace as a rule.
func (s *session) interfaceName(ifindex uint32) string {
	if p, ok := s.ports[ifindex]; ok {
		return p.Interface
	}
	if ifindex == 0 {
		return "unknown"
	}
	if dev, err := net.InterfaceByIndex(int(ifindex)); err == nil {
		return dev.Name
	}
	return fmt.Sprintf("if%d", ifindex)
}
