package healthcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

// script answers with the given details in turn and repeats the last.
func script(details ...Detail) *fakeProber {
	f := newFake(nil)
	f.answer = func(context.Context, Target) Detail {
		f.mu.Lock()
		defer f.mu.Unlock()
		d := details[0]
		if len(details) > 1 {
			details = details[1:]
		}
		return d
	}
	return f
}

func TestLog(t *testing.T) {
	type entry struct{ Msg, Level, State, Previous, Detail, PreviousDetail string }
	details := []Detail{DetailHealthy, DetailTimeout, DetailRefused, DetailRefused, DetailHealthy, DetailHealthy}
	transitions := []entry{
		{msgState, "INFO", "HEALTHY", "UNKNOWN", "HEALTHY", "UNKNOWN"},
		{msgState, "INFO", "UNHEALTHY", "HEALTHY", "REFUSED", "TIMEOUT"},
		{msgState, "INFO", "HEALTHY", "UNHEALTHY", "HEALTHY", "HEALTHY"},
	}
	for _, enabled := range []bool{false, true} {
		want := transitions
		if enabled {
			want = slices.Insert(slices.Clone(want), 2, entry{msgDetail, "INFO", "UNHEALTHY", "UNHEALTHY", "HEALTHY", "REFUSED"})
			want = slices.Insert(want, 1, entry{msgDetail, "INFO", "HEALTHY", "HEALTHY", "TIMEOUT", "HEALTHY"})
		}
		var out bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&out, nil))
		bubble(t, script(details...), Options{Logger: logger}, func(c *Checker) {
			mustSet(t, c, fakeTarget(1, func(c *lb.HealthCheck) { c.LogEnabled = enabled }))
			time.Sleep(time.Minute)
			synctest.Wait()
		})
		var got []entry
		for dec := json.NewDecoder(&out); dec.More(); {
			fields := map[string]any{}
			if err := dec.Decode(&fields); err != nil {
				t.Fatal(err)
			}
			text := func(key string) string { s, _ := fields[key].(string); return s }
			got = append(got, entry{
				text("msg"), text("level"), text("health_state"), text("previous_health_state"),
				text("detailed_health_state"), text("previous_detailed_health_state"),
			})
			keys := slices.Sorted(maps.Keys(fields))
			if diff := cmp.Diff(logKeys, keys); diff != "" {
				t.Errorf("fields: %s", diff)
			}
			if text("target_ip") != "192.0.0.1" || fields["target_port"] != 80.0 || text("health_check") != "hc" {
				t.Errorf("target in %v", fields)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("logging enabled %v: %s", enabled, diff)
		}
	}
}

var logKeys = []string{
	"detailed_health_state", "health_check", "health_check_protocol", "health_state", "ip_address", "level", "msg",
	"previous_detailed_health_state", "previous_health_state", "probe_completion_timestamp",
	"probe_result_text", "probe_source_ip", "response_latency", "target_ip", "target_port", "time",
}

func TestLocalErrorMovesNoState(t *testing.T) {
	var out bytes.Buffer
	fake := script(DetailHealthy, DetailRefused, DetailLocalError)
	target := fakeTarget(1, every(time.Second, time.Second))
	bubble(t, fake, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, func(c *Checker) {
		mustSet(t, c, target)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		st, _ := c.Status(target)
		if st.State != lb.Healthy || st.Misses != 1 || st.Results[DetailLocalError] < 30 {
			t.Errorf("status %+v, want HEALTHY with one miss", st)
		}
	})
	if n := bytes.Count(out.Bytes(), []byte("level=WARN")); n != 4 {
		t.Errorf("%d warnings in 35 s, want 4:\n%s", n, out.String())
	}
}

func TestWeightChangeIsAnEvent(t *testing.T) {
	fake := newFake(passes)
	fake.setWeight(lb.Weight{PPM: 5})
	target := fakeTarget(1, nil)
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, target)
		time.Sleep(time.Minute)
		first := drain(c)
		fake.setWeight(lb.Weight{PPM: 7})
		time.Sleep(time.Minute)
		second := drain(c)
		if len(first) != 1 || first[0].Previous != lb.Unknown || first[0].Result.Weight.PPM != 5 {
			t.Errorf("first events %+v", first)
		}
		if len(second) != 1 || second[0].Previous != lb.Healthy || second[0].State != lb.Healthy || second[0].Result.Weight.PPM != 7 {
			t.Errorf("events after the weight changed: %+v", second)
		}
		if st, _ := c.Status(target); st.Weight.PPM != 7 {
			t.Errorf("weight %+v in status", st.Weight)
		}
	})
}

func TestSnapshot(t *testing.T) {
	slow := func(ctx context.Context, target Target) Detail {
		time.Sleep(30 * time.Millisecond)
		return DetailHealthy
	}
	fake := newFake(slow)
	tcp := fakeTarget(2, every(time.Second, time.Second))
	web := tcp
	web.Check.Type = lb.CheckHTTP
	other := fakeTarget(1, every(time.Second, time.Second))
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, tcp, web, other)
		time.Sleep(10*time.Second + startWindow + 30*time.Millisecond)
		synctest.Wait()
		s := c.Snapshot()
		order := []Target{s.Targets[0].Target, s.Targets[1].Target, s.Targets[2].Target}
		if diff := cmp.Diff([]Target{other.Key(), web.Key(), tcp.Key()}, order, cmp.Comparer(func(a, b Target) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
		st := s.Targets[2]
		if st.Results[DetailHealthy] != 11 || st.LatencySum != 330*time.Millisecond || st.Passes != 11 ||
			st.Last.Latency != 30*time.Millisecond || len(st.History) != 1 || !st.Since.Equal(st.History[0].At) {
			t.Errorf("status %+v", st)
		}
		h := s.Latency[lb.CheckTCP]
		if bound, _ := h.QuantileBound(0.99); h.Count() != 22 || h.Sum != 660*time.Millisecond || bound != 50*time.Millisecond {
			t.Errorf("latency %+v", h)
		}
		if s.Lateness.Count() != 33 || s.Lateness.Sum != 0 {
			t.Errorf("lateness %+v", s.Lateness)
		}
		st.Results[DetailHealthy] = 0
		if again, _ := c.Status(tcp); again.Results[DetailHealthy] != 11 {
			t.Error("a snapshot shares memory with the checker")
		}
	})
}
