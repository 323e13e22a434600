package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/passive"
)

// fakeSignals are what was counted, by record.
type fakeSignals struct {
	records map[uint32]loader.Signals
	err     error
}

func (f *fakeSignals) Signals(record uint32) (loader.Signals, error) { return f.records[record], f.err }

// watchOf watches the view's service, whose first backend counts in record 9 and
// whose second in record 17.
func watchOf(v *view, f *fakeSignals, log *bytes.Buffer) *suspicions {
	v.cfg.Services[0].PassiveSignals = &lb.PassiveSignals{Window: 10 * time.Second, UnconfirmedShare: lb.RatioOne / 2, Minimum: 10}
	return &suspicions{
		watch: passive.NewWatch(), log: slog.New(slog.NewTextHandler(log, nil)), counters: f,
		state: func() (*lb.Config, *controller.Snapshot) { return v.cfg, v.snapshot },
	}
}

func TestASuspicionIsLoggedAndShown(t *testing.T) {
	v, f, log := testView(), &fakeSignals{records: map[uint32]loader.Signals{}}, &bytes.Buffer{}
	s := watchOf(v, f, log)
	v.suspected = s.watch.Of
	at := noon
	second := func(syns, confirmed uint64) {
		r := f.records[9]
		f.records[9] = loader.Signals{SYNs: r.SYNs + syns, Confirmed: r.Confirmed + confirmed}
		at = at.Add(time.Second)
		s.observe(at)
	}
	before, err := v.backends("")
	if err != nil {
		t.Fatal(err)
	}
	s.observe(at)
	for range 15 {
		second(4, 0)
	}
	rows, err := v.backends("")
	if err != nil || len(rows[0].Suspicions) != 1 || len(rows[1].Suspicions) != 0 {
		t.Fatalf("%v, %+v", err, rows)
	}
	if got := rows[0].Suspicions[0]; got.Signal != "UNCONFIRMED_SYN" || got.Why != "unconfirmedSyn 40/40 in 10s" {
		t.Errorf("suspicion %+v", got)
	}
	want := "backend web-a-1 (10.1.0.11) of web is SUSPECT: unconfirmedSyn 40/40 in 10s"
	if problems := v.problems(rows[:1]); len(problems) != 1 || problems[0] != want {
		t.Errorf("problems %q", problems)
	}
	for i := range rows { // nothing else of them changed
		rows[i].Suspicions = []admin.Suspicion{}
	}
	if diff := cmp.Diff(before, rows); diff != "" {
		t.Errorf("a suspicion changed (-before +after):\n%s", diff)
	}
	for range 40 {
		second(4, 4)
	}
	for _, line := range []string{
		`level=WARN msg="backend is suspected; it stays as eligible as it is" service=web backend=web-a-1 ip_address=10.1.0.11 signal=UNCONFIRMED_SYN why="unconfirmedSyn `,
		`level=INFO msg="backend is no longer suspected" service=web backend=web-a-1 ip_address=10.1.0.11 signal=UNCONFIRMED_SYN`, `lasted=`,
	} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log lacks %s\n%s", line, log)
		}
	}
}

func TestOnlyServicesThatWantItAreWatched(t *testing.T) {
	v, f := testView(), &fakeSignals{err: errors.New("broken")}
	s := watchOf(v, f, &bytes.Buffer{})
	v.cfg.Services[0].PassiveSignals = nil
	s.observe(noon) // reads nothing
	if _, watched := s.watch.Total(passive.Key{Service: "web", Instance: "web-a-1", Addr: addr1}, passive.UnconfirmedSyn); watched {
		t.Error("a service without passiveSignals is watched")
	}
	s.state = func() (*lb.Config, *controller.Snapshot) { return v.cfg, nil }
	s.observe(noon) // before the first reconcile
}
