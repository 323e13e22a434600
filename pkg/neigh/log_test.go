package neigh

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestManyChangesAreLoggedAsASum(t *testing.T) {
	var out bytes.Buffer
	l := changeLog{log: slog.New(slog.NewTextHandler(&out, nil))}
	now := time.Now()
	l.flush(now)
	lost := make([]change, 500)
	for i := range lost {
		lost[i] = change{old: Entry{State: Resolved}, now: Entry{State: Unresolved}}
	}
	l.add(lost)
	l.flush(now.Add(500 * time.Millisecond))
	l.flush(now.Add(time.Second))
	if got := strings.Count(out.String(), "level=WARN"); got != maxLogged {
		t.Errorf("%d changes were logged one by one, want %d", got, maxLogged)
	}
	if want := "map[UNRESOLVED:480]"; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in:\n%s", want, out.String())
	}
	out.Reset()
	l.add(lost[:1])
	if !strings.Contains(out.String(), "state=UNRESOLVED") {
		t.Errorf("the next second's first change is missing: %s", out.String())
	}
}
