package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"l4lb/internal/testutil"
)

// pcapFile writes frames to a pcap file, a second apart.
func pcapFile(t *testing.T, frames ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, frame := range frames {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(info, frame); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, "in.pcap", b.String())
}

func TestReplayPrintsWhatBecomesOfEachPacket(t *testing.T) {
	testutil.RequireRoot(t)
	client, vip := netip.MustParseAddrPort("10.2.0.7:40000"), netip.MustParseAddrPort("192.0.2.10:80")
	in := pcapFile(t, testutil.SYN(t, client, vip), testutil.TCP(t, client, vip), testutil.SYN(t, client, netip.MustParseAddrPort("192.0.2.10:81")))
	out := filepath.Join(t.TempDir(), "out.pcap")
	config := write(t, "f.yaml", testConfig)
	status, stdout, stderr := l4lbd(t, "replay", "--config", config, "--pcap", in, "--out", out, "-o", "json")
	want := `{"index":0,"verdict":"TX","reason":"","service":"web","forwardingRule":"web-vip","backend":"web-b-1","flow":"NEW","clientZone":"zone-b"}
{"index":1,"verdict":"TX","reason":"","service":"web","forwardingRule":"web-vip","backend":"web-b-1","flow":"HIT","clientZone":"zone-b"}
{"index":2,"verdict":"DROP","reason":"NO_RULE","service":"","forwardingRule":"","backend":"","flow":"NONE","clientZone":"zone-b"}
`
	if diff := cmp.Diff(want, stdout); diff != "" || status != 0 {
		t.Errorf("status %d, %s (-want +got):\n%s", status, stderr, diff)
	}
	if info, err := os.Stat(out); err != nil || info.Size() < 24+2*(16+54) {
		t.Errorf("the output capture: %v, %v", info, err)
	}
	_, stdout, _ = l4lbd(t, "replay", "--config", config, "--pcap", in)
	lines := strings.Split(stdout, "\n")
	if len(lines) != 5 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "INDEX") || strings.Join(strings.Fields(lines[3]), " ") != "2 DROP NONE NO_RULE - - zone-b -" {
		t.Errorf("for people:\n%s", stdout)
	}
}

// Neither the capture that is read nor an older output is lost to a mistake.
func TestReplayKeepsWhatItMustNotOverwrite(t *testing.T) {
	testutil.RequireRoot(t)
	client, vip := netip.MustParseAddrPort("10.2.0.7:40000"), netip.MustParseAddrPort("192.0.2.10:80")
	in := pcapFile(t, testutil.SYN(t, client, vip))
	before, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	config, old := write(t, "f.yaml", testConfig), write(t, "old.pcap", "old")
	events := write(t, "events.jsonl", "{\"befor\": 1}\n")
	for name, args := range map[string][]string{
		"the input as output":     {"--out", in},
		"a mistake in the events": {"--out", old, "--events", events},
	} {
		status, _, stderr := l4lbd(t, append([]string{"replay", "--config", config, "--pcap", in}, args...)...)
		if status != 2 {
			t.Errorf("%s: status %d, want 2: %s", name, status, stderr)
		}
	}
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the input changed: %v", err)
	}
	if after, err := os.ReadFile(old); err != nil || string(after) != "old" {
		t.Errorf("the older output is %q, %v", after, err)
	}
	if list, err := os.ReadDir(filepath.Dir(old)); err != nil || len(list) != 1 {
		t.Errorf("files were left behind: %v, %v", list, err)
	}
}

func TestReplayRefusesBadFiles(t *testing.T) {
	testutil.RequireRoot(t)
	config, empty := write(t, "f.yaml", testConfig), pcapFile(t)
	events := write(t, "e.jsonl", `{"before": 0, "config": "none.yaml"}`+"\n")
	tests := []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"a health file", []string{"--pcap", empty, "--health", write(t, "h.json", `{"web-a-1": "SICK"}`)}, 2, "h.json"},
		{"an events file", []string{"--pcap", empty, "--events", events}, 2, "e.jsonl"},
		{"a capture that is none", []string{"--pcap", config}, 1, "f.yaml"},
		{"a capture without packets is none", []string{"--pcap", empty}, 0, ""},
	}
	for _, tt := range tests {
		status, _, stderr := l4lbd(t, append([]string{"replay", "--config", config}, tt.args...)...)
		if status != tt.status || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: status %d, want %d, stderr %q", tt.name, status, tt.status, stderr)
		}
	}
}
