package testutil

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Diff compares two frames field by field and byte by byte: "" where they are
// equal, else a report in the form of cmp.Diff (-want +got).
func Diff(want, got []byte) string {
	return cmp.Diff(strings.Split(Dump(want), "\n"), strings.Split(Dump(got), "\n"))
}

// Dump describes a frame in lines, one field each, then the bytes.
func Dump(frame []byte) string {
	var b strings.Builder
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	field := regexp.MustCompile(`[ {]([A-Z]\w*=)`)
	for _, l := range packet.Layers() {
		line := strings.TrimSuffix(gopacket.LayerString(l), "}")
		fmt.Fprintln(&b, field.ReplaceAllString(line, "\n  $1"))
	}
	if err := packet.ErrorLayer(); err != nil {
		fmt.Fprintln(&b, "undecodable:", err.Error())
	}
	b.WriteString(hex.Dump(frame))
	return b.String()
}

// Decode parses a frame. Layers of the result alias it.
func Decode(frame []byte) gopacket.Packet {
	return gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
}
