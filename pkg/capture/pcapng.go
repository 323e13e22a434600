package capture

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// File writes a pcapng file: one interface for the packets that arrive on each
// interface and one for those that leave by it, each packet with its fate as a
// comment, both halves of a packet with the same packet id.
type File struct {
	// Open is called once the capture runs.
	Open func() (io.Writer, error)
	// SnapLen and Filter are noted in the file.
	SnapLen int
	Filter  string
	// Application is noted in the file.
	Application string

	w          *pcapgo.NgWriter
	interfaces []fileInterface // as they stand in the file
}

type fileInterface struct {
	name, direction string
	packets         uint64
}

// The directions, as they stand behind an interface's name.
const (
	directionIn  = " in"
	directionOut = " out (l4lb)"
)

// Start implements Sink.
func (f *File) Start(interfaces []string) error {
	w, err := f.Open()
	if err != nil {
		return err
	}
	options := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: f.Application,
	}}
	if f.w, err = pcapgo.NewNgWriterInterface(w, f.describe(interfaces[0], directionIn), options); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	f.interfaces = []fileInterface{{name: interfaces[0], direction: directionIn}}
	for _, name := range interfaces[1:] {
		if _, err := f.number(name, directionIn); err != nil {
			return err
		}
	}
	return f.Flush()
}

func (f *File) describe(name, direction string) pcapgo.NgInterface {
	what := map[string]string{
		directionIn:  "packets as they arrive on " + name + ", before the gateway's program",
		directionOut: "packets as the gateway's program sends them to " + name,
	}
	return pcapgo.NgInterface{
		Name: name + direction, Description: what[direction], Filter: f.Filter,
		LinkType: layers.LinkTypeEthernet, SnapLength: uint32(f.SnapLen), OS: runtime.GOOS,
	}
}

// number is that of an interface and a direction in the file.
func (f *File) number(name, direction string) (int, error) {
	is := func(i fileInterface) bool { return i.name == name && i.direction == direction }
	if n := slices.IndexFunc(f.interfaces, is); n >= 0 {
		return n, nil
	}
	n, err := f.w.AddInterface(f.describe(name, direction))
	if err != nil {
		return 0, fmt.Errorf("write capture: %w", err)
	}
	f.interfaces = append(f.interfaces, fileInterface{name: name, direction: direction})
	return n, nil
}

// Packet implements Sink.
func (f *File) Packet(p *Packet) error {
	if err := f.frame(p, &p.In, directionIn); err != nil {
		return err
	}
	if !p.Sent() {
		return nil
	}
	return f.frame(p, &p.Out, directionOut)
}

func (f *File) frame(p *Packet, frame *Frame, direction string) error {
	number, err := f.number(frame.Interface, direction)
	if err != nil {
		return err
	}
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	if direction == directionOut {
		flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	f.interfaces[number].packets++
	ci := gopacket.CaptureInfo{
		Timestamp: frame.Time, CaptureLength: len(frame.Data), Length: max(frame.Length, len(frame.Data)), InterfaceIndex: number,
	}
	err = f.w.WritePacketWithOptions(ci, frame.Data, pcapgo.NgPacketOptions{
		Comments: []string{p.String()},
		Flags:    &flags,
		PacketID: &p.ID,
		Verdicts: []pcapgo.NgEpbVerdict{{
			Type: pcapgo.NgEpbVerdictTypeLinuxeBPFXDP,
			Data: binary.LittleEndian.AppendUint64(nil, uint64(p.Verdict)),
		}},
	})
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

// Flush implements Sink.
func (f *File) Flush() error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

// Finish implements Sink: each interface gets its statistics.
func (f *File) Finish(s *Summary) error {
	for number, i := range f.interfaces {
		stats := pcapgo.NgInterfaceStatistics{
			LastUpdate: s.End, StartTime: s.Start, EndTime: s.End,
			PacketsReceived: i.packets, PacketsDropped: pcapgo.NgNoValue64,
		}
		for _, sum := range s.Interfaces {
			if i.name == sum.Name && i.direction == directionIn {
				stats.PacketsReceived, stats.PacketsDropped = sum.Seen, sum.Skipped+sum.Lost
			}
		}
		if err := f.w.WriteInterfaceStats(number, stats); err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
	}
	return f.Flush()
}
