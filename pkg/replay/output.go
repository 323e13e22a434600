package replay

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// output writes what leaves as a pcap file of Ethernet frames.
type output struct {
	buf    *bufio.Writer // nil where nobody wants it
	pcap   *pcapgo.Writer
	header bool
}

func newOutput(w io.Writer, nanoseconds bool) *output {
	if w == nil {
		return &output{}
	}
	o := &output{buf: bufio.NewWriterSize(w, 1<<16)}
	if o.pcap = pcapgo.NewWriter(o.buf); nanoseconds {
		o.pcap = pcapgo.NewWriterNanos(o.buf)
	}
	return o
}

// write adds a frame of which so many bytes are missing.
func (o *output) write(t time.Time, frame []byte, missing int) error {
	if o.buf == nil {
		return nil
	}
	if err := o.writeHeader(); err != nil {
		return err
	}
	ci := gopacket.CaptureInfo{Timestamp: t, CaptureLength: len(frame), Length: len(frame) + missing}
	if err := o.pcap.WritePacket(ci, frame); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (o *output) writeHeader() error {
	if o.header {
		return nil
	}
	o.header = true
	if err := o.pcap.WriteFileHeader(maxCaptured, layers.LinkTypeEthernet); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// finish completes the file, also where nothing left.
func (o *output) finish() error {
	if o.buf == nil {
		return nil
	}
	if err := o.writeHeader(); err != nil {
		return err
	}
	if err := o.buf.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
