package replay

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "l4lb/internal/testutil"
)

var update = flag.Bool("update", false, "write the captures and outputs under examples/replay anew")

// examples says what is in the captures that come with the project.
var examples = map[string]func(*testing.T) []taken{
	"zonal-affinity": zonalExample,
	"failover":       failoverExample,
	"idle-timeout":   idleExample,
}

func TestExamplesGiveWhatTheyCameWith(t *testing.T) {
	for name, packets := range examples {
		t.Run(name, func(t *testing.T) {
			RequireRoot(t)
			dir := filepath.Join("../../examples/replay", name)
			capture := writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, packets(t))
			golden(t, filepath.Join(dir, "in.pcap"), capture)
			golden(t, filepath.Join(dir, "want.jsonl"), replayExample(t, dir))
		})
	}
}

// replayExample gives the output as the command prints it with -o json.
func replayExample(t *testing.T, dir string) []byte {
	t.Helper()
	cfg, err := loadConfig(filepath.Join(dir, "l4lb.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(dir, "events.jsonl")
	if _, err := os.Stat(events); err != nil {
		events = ""
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	_, err = Run(t.Context(), Options{
		Config: cfg, LoadConfig: loadConfig, Capture: filepath.Join(dir, "in.pcap"), EventsFile: events,
		Emit: func(r Record) error { return enc.Encode(r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// golden compares with a file, or with -update writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun with -update if this is meant", path, diff)
	}
}

// opened is the start of a TCP connection: SYN and the first packet after it.
func opened(t *testing.T, at time.Duration, client netip.AddrPort, vip netip.AddrPort) []taken {
	t.Helper()
	return []taken{
		{at: at, data: SYN(t, client, vip)},
		{at: at + 40*time.Millisecond, data: TCP(t, client, vip, Flags("PA"), Payload([]byte("GET / HTTP/1.0\r\n\r\n")))},
	}
}

func zonalExample(t *testing.T) []taken {
	vip := netip.MustParseAddrPort("192.0.2.10:80")
	client := func(addr string, n int) netip.AddrPort { return port(netip.MustParseAddr(addr), 40000+n) }
	var list []taken
	// 0 to 13: everything is healthy. Four clients of zone a, one of zone b,
	// one over VPN, one in no zone.
	for i, addr := range []string{"10.1.200.1", "10.1.200.2", "10.1.200.3", "10.1.200.4", "10.2.200.1", "10.1.77.5", "198.51.100.7"} {
		list = append(list, opened(t, time.Duration(i)*time.Second, client(addr, 0), vip)...)
	}
	// 14: one of three is unhealthy, 2/3 is enough: clients stay. 24: two of
	// three, 1/3 is not: new connections spill over. 34: all are back. Each
	// time the first connections go on where they are.
	for round := 1; round <= 3; round++ {
		at := time.Duration(60*round) * time.Second
		for i, addr := range []string{"10.1.200.1", "10.1.200.2"} {
			list = append(list, taken{at: at + time.Duration(i)*time.Millisecond, data: TCP(t, client(addr, 0), vip)})
		}
		for i := range 4 {
			list = append(list, opened(t, at+time.Duration(i+1)*time.Second, client("10.1.200.1", 10*round+i), vip)...)
		}
	}
	return list
}

func failoverExample(t *testing.T) []taken {
	vip := netip.MustParseAddrPort("192.0.2.20:5432")
	client := func(n int) netip.AddrPort { return port(Client4, 40000+n) }
	var list []taken
	at := func(s int, data []byte) { list = append(list, taken{at: time.Duration(s) * time.Second, data: data}) }
	// 0 to 7: four connections to the primaries.
	for n := range 4 {
		list = append(list, opened(t, time.Duration(n)*time.Second, client(n), vip)...)
	}
	// 8: one primary of two is unhealthy, the spare takes over. Old
	// connections stay for 300 s, new ones go to the spare.
	for n := range 4 {
		at(60, TCP(t, client(n), vip))
	}
	list = append(list, opened(t, 61*time.Second, client(10), vip)...)
	list = append(list, opened(t, 62*time.Second, client(11), vip)...)
	at(359, TCP(t, client(0), vip))
	at(359, TCP(t, client(1), vip))
	at(361, TCP(t, client(0), vip))
	at(361, TCP(t, client(1), vip))
	// 20: the primary is back. New connections are its, those of the spare
	// have 300 s.
	at(400, TCP(t, client(10), vip))
	list = append(list, opened(t, 401*time.Second, client(20), vip)...)
	at(699, TCP(t, client(10), vip))
	at(701, TCP(t, client(10), vip))
	return list
}

func idleExample(t *testing.T) []taken {
	vip, vip6 := netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("[2001:db8:f::53]:53")
	client, client6 := port(Client4, 40000), port(Client6, 40000)
	return seconds(
		0, UDP(t, client, vip), 0, UDP(t, client6, vip6), 0, SYN(t, client, vip), 0, TCP(t, client, vip),
		// 599 s of silence are not too long, for any protocol.
		599, UDP(t, client, vip), 599, UDP(t, client6, vip6), 599, TCP(t, client, vip),
		// The end of a connection does not end its entry.
		600, TCP(t, client, vip, Flags("FA")), 601, TCP(t, client, vip, Flags("R")), 602, TCP(t, client, vip),
		// 601 s are; the packet is forwarded as one of a new flow.
		1200, UDP(t, client, vip), 1200, UDP(t, client6, vip6), 1203, TCP(t, client, vip),
		// A SYN is always a new connection.
		1204, SYN(t, client, vip), 1205, TCP(t, client, vip),
	)
}
