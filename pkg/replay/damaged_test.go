package replay

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "l4lb/internal/testutil"
)

// expectError checks the whole message but for the directory.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

func TestDamagedCaptureSaysWhereAndKeepsWhatCameBefore(t *testing.T) {
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))
	whole := writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, seconds(0, udp, 1, udp, 2, udp))
	path := file(t, "in.pcap", whole[:len(whole)-10])
	r := replayed(t, Options{Config: parseConfig(t, zonalYAML), Capture: path})
	if want := path + ": packet 2: the file ends inside it: truncated"; r.err == nil || r.err.Error() != want {
		t.Errorf("error is %v, want %s", r.err, want)
	}
	expectFlows(t, r, "NEW web-a-1, HIT web-a-1")
	if len(r.sent) != 2 || r.summary.Packets != 2 {
		t.Errorf("%d packets in the output, %+v", len(r.sent), r.summary)
	}
}

func TestDamagedCaptures(t *testing.T) {
	le := binary.LittleEndian
	pcap := func(change func(b []byte)) []byte {
		b := writePcap(le, pcapMicroseconds, linkEthernet, threePackets)
		change(b)
		return b
	}
	// Blocks of the section: header at 0, interface at 28, statistics at 80,
	// packets from 104 on.
	ng := func(change func(b []byte)) []byte {
		b := section(le, 6, 0, func(t time.Time) uint64 { return uint64(t.UnixMicro()) })
		change(b)
		return b
	}
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"no capture", []byte("l4lb:\n  gateway:\n"), "in.pcap: neither a pcap nor a pcapng file"},
		{"empty file", nil, "in.pcap: the file is empty"},
		{"half a header", pcap(func([]byte) {})[:20], "in.pcap: the file ends inside its header"},
		{"half a section header", ng(func([]byte) {})[:20], "in.pcap: the file ends inside its header"},
		{"pcap version", pcap(func(b []byte) { b[4] = 3 }), "in.pcap: pcap version 3.4, only 2.x is known"},
		{"link type", pcap(func(b []byte) { b[20] = 127 }), "in.pcap: link type 127 is not supported: Ethernet (1)"},
		{"long record", pcap(func(b []byte) { le.PutUint32(b[32:], 1<<30) }), "in.pcap: packet 0: a record of 1073741824 bytes"},
		{"pcapng version", ng(func(b []byte) { b[12] = 2 }), "in.pcap: pcapng version 2.0, only 1.x is known"},
		{"byte order", ng(func(b []byte) { b[8] = 0 }), "in.pcap: a section header without byte order"},
		{"short block", ng(func(b []byte) { le.PutUint32(b[32:], 8) }), "in.pcap: packet 0: a block of 8 bytes: the file is damaged"},
		{"long block", ng(func(b []byte) { le.PutUint32(b[32:], 1<<30) }), "in.pcap: packet 0: a block of 1073741824 bytes"},
		{"odd block", ng(func(b []byte) { le.PutUint32(b[32:], 57) }), "in.pcap: packet 0: a block of 57 bytes"},
		{"block ends otherwise", ng(func(b []byte) { b[76] = 60 }), "in.pcap: packet 0: a block of 52 bytes that ends as one of 60"},
		{"option", ng(func(b []byte) { b[46] = 200 }), "in.pcap: packet 0: an option of 200 bytes in 28"},
		{"resolution", ng(func(b []byte) { b[56] = 20 }), "in.pcap: packet 0: a time stamp resolution of 0x14"},
		{"interface link type", ng(func(b []byte) { b[36] = 105 }), "in.pcap: packet 0: interface 0: link type 105 is not supported"},
		{"interface", ng(func(b []byte) { b[112] = 1 }), "in.pcap: packet 0: interface 1 of 1: the file is damaged"},
		{"packet in block", ng(func(b []byte) { b[124] = 65 }), "in.pcap: packet 0: a packet of 65 bytes in a block of 64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := read(t, tt.data)
			if err != nil && !strings.Contains(err.Error(), "in.pcap: ") {
				err = errors.New("in.pcap: packet 0: " + err.Error()) // as Run does
			}
			expectError(t, err, tt.want)
		})
	}
	if _, err := openCapture("no-such-file"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestMistakesInEventsAndHealthAreFoundBeforeTheFirstPacket(t *testing.T) {
	capture := ethernetCapture(t, seconds(0, UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))))
	seeded := file(t, "seeded.yaml", []byte(strings.Replace(zonalYAML, "name: gw-1,", "name: gw-1, hashSeed: 5,", 1)))
	bad := file(t, "bad.yaml", []byte("backendservices: []\n"))
	tests := []struct {
		name, events, health string
		want                 string
	}{
		{"unknown key", "{\"before\": 0, \"health\": {}}\n\n{\"befor\": 1}\n", "", `events.jsonl:3: unknown key "befor"`},
		{"no before", `{"health": {"web-a-1": "HEALTHY"}}`, "", `events.jsonl:1: "before" is missing`},
		{"negative", `{"before": -1, "health": {}}`, "", "events.jsonl:1: before -1: packets count from 0"},
		{"fraction", `{"before": 1.5, "health": {}}`, "", "events.jsonl:1: cannot unmarshal number 1.5"},
		{"nothing to do", `{"before": 1}`, "", `events.jsonl:1: neither "health" nor "config"`},
		{"order", "{\"before\": 2, \"health\": {}}\n{\"before\": 1, \"health\": {}}", "", "events.jsonl:2: before 1 comes behind before 2"},
		{"two on a line", `{"before": 1, "health": {}} {"before": 2, "health": {}}`, "", "events.jsonl:1: something follows"},
		{"no JSON", "before: 1", "", "events.jsonl:1: invalid character 'b'"},
		{"half an object", `{"before": 1, `, "", "events.jsonl:1: the JSON ends too early"},
		{"state", `{"before": 1, "health": {"web-a-1": "DEAD"}}`, "", `events.jsonl:1: instance "web-a-1": bad health: state "DEAD" is none of`},
		{"list", `{"before": 1, "health": ["web-a-1"]}`, "", "events.jsonl:1: health is not an object"},
		{"instance", `{"before": 1, "health": {"web-z": "HEALTHY"}}`, "", `events.jsonl:1: instance "web-z" is in no group; the groups have web-a-1, web-b-1`},
		{"configuration", `{"before": 1, "config": "gone.yaml"}`, "", "events.jsonl:1: read configuration: open "},
		{"hash seed", `{"before": 1, "config": "` + seeded + `"}`, "", "events.jsonl:1: l4lb.gateway: changing hashSeed needs a restart"},
		{"bad configuration", `{"before": 1, "config": "` + bad + `"}`, "", "bad.yaml:1:1: "},
		{"health state", "", "{\"web-b-1\": \"HEALTHY\",\n \"web-a-1\": \"DEAD\"}", `health.json:2: instance "web-a-1": bad health: state "DEAD"`},
		{"null", "", `{"web-a-1": null}`, `health.json:1: instance "web-a-1": bad health: state ""`},
		{"weight", "", `{"web-a-1": {"state": "HEALTHY", "weight": -1}}`, `health.json:1: instance "web-a-1": bad health: weight -1`},
		{"key of a state", "", `{"web-a-1": {"stat": "HEALTHY"}}`, `unknown field "stat"`},
		{"twice", "", `{"web-a-1": "HEALTHY", "web-a-1": "UNHEALTHY"}`, `health.json:1: instance "web-a-1" is there twice`},
		{"health instance", "", `{"web-z": "HEALTHY"}`, `health.json: instance "web-z" is in no group`},
		{"health syntax", "", "{\"web-a-1\": \"HEALTHY\",\n}", "health.json:2: invalid character '}'"},
		{"health end", "", "{\"web-a-1\": \"HEALTHY\"", "health.json:1: the JSON ends too early"},
		{"health rest", "", "{}\n{}", "health.json:2: something follows"},
		{"empty health", "", " ", "health.json:1: the JSON ends too early"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Config: parseConfig(t, zonalYAML), Capture: capture}
			if tt.events != "" {
				o.EventsFile = file(t, "events.jsonl", []byte(tt.events))
			}
			if tt.health != "" {
				o.HealthFile = file(t, "health.json", []byte(tt.health))
			}
			r := replayed(t, o)
			expectError(t, r.err, tt.want)
			var input *InputError
			if !errors.As(r.err, &input) || len(r.records) != 0 {
				t.Errorf("%T, %d records", r.err, len(r.records))
			}
		})
	}
}

func TestEmitEndsAReplay(t *testing.T) {
	RequireRoot(t)
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))
	stop := errors.New("enough")
	_, err := Run(t.Context(), Options{
		Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, slices.Repeat(seconds(0, udp), 9)),
		Emit: func(r Record) error {
			if r.Index == 3 {
				return stop
			}
			return nil
		},
	})
	if !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	expectError(t, err, "in.pcap: packet 3: emit record: enough")
}
