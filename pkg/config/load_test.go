package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// largeYAML has n backends in groups of size each, all in one service.
func largeYAML(n, size int) []byte {
	var b strings.Builder
	b.WriteString(gatewayYAML + "networkEndpointGroups:\n")
	groups := (n + size - 1) / size
	for i := range n {
		if i%size == 0 {
			fmt.Fprintf(&b, "- name: group-%d\n  zone: zone-a\n  networkEndpoints:\n", i/size)
		}
		fmt.Fprintf(&b, "  - {instance: web-%d, ipAddress: 10.%d.%d.%d}\n", i, i>>16, i>>8&255, i&255)
	}
	b.WriteString("backendServices:\n- name: s\n  backends:\n")
	for i := range groups {
		fmt.Fprintf(&b, "  - group: group-%d\n", i)
	}
	b.WriteString("forwardingRules:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {name: r%d, IPAddress: 192.0.2.%d, ports: [%d], backendService: s}\n", i, i&255, 1+i>>8)
	}
	return []byte(b.String())
}

// cpuTime is what the process has used so far. Unlike the clock it does not
// count the machine's other work.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Loading is linear: ten times the backends take some ten times as long, where
// quadratic code anywhere on the way would take a hundred times. 10 000 backends
// take 0.2 to 0.5 s (the benchmark below), nearly all of it in the YAML library.
func TestLoadTimeGrowsWithTheNumberOfBackends(t *testing.T) {
	const few, many = 1000, 10_000
	for _, size := range []int{1, 100, 1000} {
		once, tenfold := parseTime(t, few, size), parseTime(t, many, size)
		if tenfold > 30*once {
			t.Errorf("groups of %d: %d backends took %v of CPU time, %d took %v", size, few, once, many, tenfold)
		}
	}
}

// parseTime is the least CPU time of three that loading takes.
func parseTime(t *testing.T, backends, groupSize int) time.Duration {
	t.Helper()
	data := largeYAML(backends, groupSize)
	best := time.Hour
	for range 3 {
		start := cpuTime(t)
		doc, err := Parse("f", data)
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, cpuTime(t)-start)
		found := 0
		for _, g := range doc.Config.Groups {
			found += len(g.Endpoints)
		}
		if found != backends {
			t.Fatalf("groups of %d: %d backends, want %d", groupSize, found, backends)
		}
	}
	return best
}

func BenchmarkParse10kBackends(b *testing.B) {
	for _, size := range []int{1, 100, 10_000} {
		data := largeYAML(10_000, size)
		b.Run(fmt.Sprintf("group=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse("f", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"whole.yaml", "export.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		"", "a: *b", "a: &a [*a]", "? [x]\n: y", "l4lb: {gateway: {name: !!str 1, interfaces: |\n  x\n}}",
		gatewayYAML + "backendServices:\n- &s {name: s, failoverPolicy: {failoverRatio: 1e-1}}\n- *s\n",
		gatewayYAML + "routes: [{name: r, destRange: 10.0.0.0/8, nextHopIlb: 192.0.2.1}]\n",
		gatewayYAML + "networkEndpointGroups: [{name: g, networkEndpoints: [{instance: i, ipAddress: \"::1\"}]}]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse("f", data)
		if err == nil {
			if doc.Config.Gateway.Name == "" {
				t.Error("accepted a configuration without a gateway name")
			}
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("error is a %T: %v", err, err)
		}
		for _, e := range errs {
			if e.Line < 1 || e.Col < 1 || e.Msg == "" || strings.Contains(e.Msg, "\n") {
				t.Errorf("bad error %#v", e)
			}
		}
	})
}
