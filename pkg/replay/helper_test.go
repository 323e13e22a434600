package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"l4lb/internal/testutil"
	"l4lb/pkg/config"
	"l4lb/pkg/lb"
)

// begin is the time of the first packet of most captures.
var begin = time.Unix(1_700_000_000, 123_000_000)

// taken is a packet of a capture under construction.
type taken struct {
	at     time.Duration // after begin
	data   []byte
	length int // 0 for that of data
}

// seconds lists packets that come at whole seconds after the first.
func seconds(pairs ...any) []taken {
	var list []taken
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, taken{at: time.Duration(pairs[i].(int)) * time.Second, data: pairs[i+1].([]byte)})
	}
	return list
}

// writePcap makes a classic capture file.
func writePcap(order binary.ByteOrder, magic uint32, link linkType, packets []taken) []byte {
	b := new(bytes.Buffer)
	put := func(values ...any) {
		for _, v := range values {
			binary.Write(b, order, v)
		}
	}
	put(magic, uint16(2), uint16(4), uint64(0), uint32(maxCaptured), uint32(link))
	for _, p := range packets {
		t := begin.Add(p.at)
		fraction := uint32(t.Nanosecond())
		if magic == pcapMicroseconds {
			fraction /= 1000
		}
		put(uint32(t.Unix()), fraction, uint32(len(p.data)), uint32(max(p.length, len(p.data))), p.data)
	}
	return b.Bytes()
}

// file writes a file of the test's own.
func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	return writeFile(t, t.TempDir(), name, string(data))
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ethernetCapture(t testing.TB, packets []taken) string {
	t.Helper()
	return file(t, "in.pcap", writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, packets))
}

// loadConfig is what the command gives Run.
func loadConfig(path string) (*lb.Config, error) {
	doc, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	return doc.Config, nil
}

func parseConfig(t testing.TB, yaml string) *lb.Config {
	t.Helper()
	doc, err := config.Parse("l4lb.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Config
}

// sentPacket is one packet of the output.
type sentPacket struct {
	time   time.Time
	frame  []byte
	length int
}

// result is all that a replay gives.
type result struct {
	records []Record
	sent    []sentPacket
	summary Summary
	err     error
}

// replayed runs a replay and reads its output back.
func replayed(t *testing.T, o Options) result {
	t.Helper()
	testutil.RequireRoot(t)
	var r result
	var out bytes.Buffer
	o.Out = &out
	o.LoadConfig = loadConfig
	o.Emit = func(rec Record) error {
		r.records = append(r.records, rec)
		return nil
	}
	r.summary, r.err = Run(t.Context(), o)
	if out.Len() > 0 {
		r.sent = readOutput(t, &out)
	}
	return r
}

func readOutput(t *testing.T, r io.Reader) []sentPacket {
	t.Helper()
	p, err := pcapgo.NewReader(r)
	if err != nil {
		t.Fatalf("read output: %v", err)
	}
	var list []sentPacket
	for {
		data, ci, err := p.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("read output: %v", err)
		}
		list = append(list, sentPacket{time: ci.Timestamp, frame: data, length: ci.Length})
	}
}

// mustReplay is replayed without an error.
func mustReplay(t *testing.T, o Options) result {
	t.Helper()
	r := replayed(t, o)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// flows writes down flow and backend of each record, as "NEW web-a-1, HIT web-a-1".
func flows(records []Record) string {
	var list []string
	for _, r := range records {
		list = append(list, strings.TrimSpace(r.Flow+" "+r.Backend))
	}
	return strings.Join(list, ", ")
}

func expectFlows(t *testing.T, r result, want string) {
	t.Helper()
	if got := flows(r.records); got != want {
		t.Errorf("flows are\n%s\nwant\n%s", got, want)
	}
}

// port is an address of the tests with a port.
func port(a netip.Addr, n int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(n)) }

var vip80 = port(testutil.VIP4, 80)
