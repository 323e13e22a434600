package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/admin"
)

func exampleTraffic() *traffic {
	list := []source{{client: "client-a-1", group: groupA}, {client: "client-b-1", group: groupB}}
	t := newTraffic(list, nil)
	for _, name := range []string{"web-a-1", "web-a-2", "web-b-1"} {
		t.count(0, t.window, name, nil)
	}
	t.count(0, t.window-1, "web-spare-1", nil) // began in an earlier window
	return t
}

func TestWithoutATerminalThereAreOnlyLines(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out)
	s.Begin(1, 2, "all is well")
	s.Draw([]string{"a table"})
	s.Done(1500*time.Millisecond, exampleTraffic())
	s.Begin(2, 2, "nothing is")
	s.Failed()
	s.Clear()
	want := `ok    1/2  all is well
           zone-a: a 66% b 34%, zone-b: nobody, no zone: nobody, VPN: nobody; in force after 1.5 s
FAIL  2/2  nothing is
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestOnATerminalTheTableIsDrawnInPlace(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out)
	s.columns = 10
	s.Draw([]string{"one", "a line that is too long"})
	s.Line("a line that stays")
	s.Draw([]string{"three"})
	s.Clear()
	const table = "one\na line th\n"
	want := table + "\x1b[2A\x1b[J" + "a line that stays\n" + table + "\x1b[2A\x1b[J" + "three\n" + "\x1b[1A\x1b[J"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTheTableShowsZonesAndBackends(t *testing.T) {
	b := board{
		zones: []admin.Zone{
			{Name: "zone-a", Backends: 1, To: []admin.ZoneTraffic{{Zone: "zone-a", Packets: 70}, {Zone: "zone-b", Packets: 5}}},
			{Name: "zone-b", Backends: 1},
			{Name: admin.NoZone, To: []admin.ZoneTraffic{{Zone: "zone-b", Packets: 3}}},
		},
		backends: []admin.Backend{
			{Instance: "web-a-1", Zone: "zone-a", State: "HEALTHY", Eligible: true, Address: "10.1.0.11"},
			{Instance: "web-a-1", Zone: "zone-a", State: "UNHEALTHY", Address: "2001:db8:a::11"},
			{Instance: "web-b-1", Zone: "zone-b", State: "UNHEALTHY"},
		},
		answers: map[string]tally{groupA: {answers: map[string]int{"web-a-1": 4}}},
		held:    map[string]int{"web-b-1": 2},
		down:    map[string]bool{"web-b-1": true},
	}
	want := []string{
		"packets from  to zone-a  to zone-b",
		"zone-a        70         5",
		"zone-b        0          0",
		"none          0          3",
		"",
		"new connections  zone    health     used  zone-a  zone-b  no zone  VPN  held",
		"web-a-1          zone-a  MIXED      yes   4       0       0        0    0",
		"web-b-1 (down)   zone-b  UNHEALTHY  -     0       0       0        0    2",
	}
	if diff := cmp.Diff(want, b.lines()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if got := (board{}).lines()[0]; got != "no daemon is running" {
		t.Errorf("without a daemon the table begins with %q", got)
	}
}
