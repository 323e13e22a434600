package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"l4lb/internal/testutil"
)

var (
	objectA   = flag.String("a", os.Getenv("BENCH_A"), "object file to compare, default the one that is built in")
	objectB   = flag.String("b", os.Getenv("BENCH_B"), "object file to compare with it")
	scenarios = flag.String("scenarios", "", "only these, comma-separated")
	families  = flag.String("families", "", "only these, comma-separated")
	flows     = flag.String("flows", "", "only these, comma-separated")
	rounds    = flag.Int("rounds", 0, "how often the programs are loaded")
	samples   = flag.Int("samples", 0, "samples of each round")
	entries   = flag.Uint("entries", 0, "size of the flow tables")
)

func options(tb testing.TB) Options {
	tb.Helper()
	o := Options{Rounds: *rounds, Samples: *samples, FlowEntries: uint32(*entries)}
	for _, s := range list(*scenarios) {
		o.Scenarios = append(o.Scenarios, Scenario(s))
	}
	for _, f := range list(*families) {
		o.Families = append(o.Families, Family(f))
	}
	for _, f := range list(*flows) {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			tb.Fatal(err)
		}
		o.Flows = append(o.Flows, uint32(n))
	}
	return o
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// BenchmarkCompare prints the embedded program, or that of -a, beside that of -b.
func BenchmarkCompare(b *testing.B) {
	testutil.RequireRoot(b)
	if *objectA == "" && *objectB == "" {
		return
	}
	results, err := Compare(options(b), *objectA, *objectB)
	if err != nil {
		b.Fatal(err)
	}
	if err := ComparisonTable(os.Stdout, results); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPacket measures single scenarios; with -benchtime=1x once and briefly.
func BenchmarkPacket(b *testing.B) {
	testutil.RequireRoot(b)
	for _, family := range []Family{IPv4, IPv6} {
		for _, s := range Scenarios() {
			for _, n := range []uint32{1 << 10} {
				b.Run(fmt.Sprintf("%s/%s/%d", s, family, n), func(b *testing.B) {
					o := Options{
						Scenarios: []Scenario{s}, Families: []Family{family}, Flows: []uint32{n},
						Rounds: 1, Samples: 1,
					}
					sum := 0.0
					for range b.N {
						results, err := Run(o)
						if err != nil {
							b.Fatal(err)
						}
						sum += results[0].NsPerPacket
					}
					b.ReportMetric(sum/float64(b.N), "ns/packet")
				})
			}
		}
	}
}

func TestEveryScenarioIsMeasured(t *testing.T) {
	testutil.RequireRoot(t)
	results, err := Run(Options{Flows: []uint32{1, 64}, Rounds: 1, Samples: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(Scenarios()) * 2 * 2; len(results) != want {
		t.Fatalf("got %d results, want %d", len(results), want)
	}
	for _, r := range results {
		if r.DriverNs <= 0 || r.Mpps <= 0 || r.NsPerPacket > 1e5 {
			t.Errorf("implausible: %+v", r)
		}
	}
}

func TestComparingAProgramWithItself(t *testing.T) {
	testutil.RequireRoot(t)
	o := Options{Scenarios: []Scenario{EstablishedHit}, Families: []Family{IPv4}, Flows: []uint32{64}, Rounds: 1, Samples: 3}
	results, err := Compare(o, "../loader/lb_bpfel.o", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].A <= 0 || results[0].B <= 0 {
		t.Fatalf("got %+v", results)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"a number of flows that is no power of two": {Flows: []uint32{3}},
		"more flows than the table holds":           {Flows: []uint32{1 << 20}},
		"an unknown scenario":                       {Scenarios: []Scenario{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Run(o); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestMidmeanIgnoresOutliers(t *testing.T) {
	if got := midmean([]float64{1000, 10, 11, 12, 13, 10, 1, 11}); got != 10.5+0.5 {
		t.Errorf("got %v, want 11", got)
	}
}

func TestResultsPrint(t *testing.T) {
	results := []Result{{Scenario: Pass, Family: IPv4, Flows: 1 << 16, NsPerPacket: 20, DriverNs: 10, Mpps: 50}}
	var table, js bytes.Buffer
	if err := Table(&table, results); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "64 Ki") || !strings.Contains(table.String(), "20.0") {
		t.Errorf("table:\n%s", table.String())
	}
	if err := JSON(&js, results); err != nil {
		t.Fatal(err)
	}
	var back []map[string]any
	if err := json.Unmarshal(js.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"scenario", "family", "flows", "nsPerPacket", "driverNs", "mpps"} {
		if _, ok := back[0][key]; !ok {
			t.Errorf("no %s in %s", key, js.String())
		}
	}
}
