package capture

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Lines prints a line for each packet, for people.
type Lines struct{ W io.Writer }

// Start implements Sink.
func (l *Lines) Start([]string) error {
	l.W = bufio.NewWriter(l.W)
	return nil
}

// Packet implements Sink.
func (l *Lines) Packet(p *Packet) error {
	way := p.In.Interface
	if p.Sent() {
		way += " → " + p.Out.Interface
	}
	_, err := fmt.Fprintf(l.W, "%s %s  %s  %s\n", p.In.Time.Format("15:04:05.000000"), way, headers(&p.In), p)
	return err
}

// Flush implements Sink.
func (l *Lines) Flush() error { return l.W.(*bufio.Writer).Flush() }

// Finish implements Sink.
func (l *Lines) Finish(*Summary) error { return l.Flush() }

// headers says in a few words what a frame is.
func headers(f *Frame) string {
	packet := gopacket.NewPacket(f.Data, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	var src, dst, srcPort, dstPort, what string
	for _, layer := range packet.Layers() {
		switch l := layer.(type) {
		case *layers.ARP:
			return fmt.Sprintf("ARP %s, %d bytes", map[bool]string{true: "request", false: "reply"}[l.Operation == layers.ARPRequest], f.Length)
		case *layers.IPv4:
			src, dst, what = l.SrcIP.String(), l.DstIP.String(), l.Protocol.String()
		case *layers.IPv6:
			src, dst, what = l.SrcIP.String(), l.DstIP.String(), l.NextHeader.String()
		case *layers.TCP:
			if len(l.Contents) == 0 {
				continue // the frame ends in it
			}
			what = "TCP " + tcpFlags(l)
			srcPort, dstPort = fmt.Sprint(uint16(l.SrcPort)), fmt.Sprint(uint16(l.DstPort))
		case *layers.UDP:
			what, srcPort, dstPort = "UDP", fmt.Sprint(uint16(l.SrcPort)), fmt.Sprint(uint16(l.DstPort))
		case *layers.ICMPv4:
			what = "ICMP " + l.TypeCode.String()
		case *layers.ICMPv6:
			what = "ICMPv6 " + l.TypeCode.String()
		}
	}
	if src == "" {
		return fmt.Sprintf("%d bytes", f.Length)
	}
	return fmt.Sprintf("%s > %s %s, %d bytes", endpoint(src, srcPort), endpoint(dst, dstPort), what, f.Length)
}

func endpoint(addr, port string) string {
	if port == "" {
		return addr
	}
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + port
}

func tcpFlags(t *layers.TCP) string {
	var out []string
	for _, f := range []struct {
		set  bool
		name string
	}{{t.SYN, "SYN"}, {t.ACK, "ACK"}, {t.FIN, "FIN"}, {t.RST, "RST"}, {t.PSH, "PSH"}} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, ",")
}
