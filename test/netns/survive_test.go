package netns

import (
	"testing"
	"time"
)

// A long download and an exchange of datagrams go on at their backend while
// others leave, come and fall ill.
func TestConnectionsSurviveChangesOfOtherBackends(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.drain = 2 * time.Second
		g := startGateway(n, s)
		download, pinned := n.startDownload(f, inNoZone)
		x := n.startExchange(f, inNoZone)
		answering := x.next(t)
		var others []string
		for _, name := range s.backends {
			if name != pinned && name != answering {
				others = append(others, name)
			}
		}

		g.reload(s.without(others[0]))
		g.reload(s.without(others[0]).with("a3"))
		g.awaitState("HEALTHY", "a3")
		n.backends[others[1]].setSick(true)
		g.awaitState("UNHEALTHY", others[1])
		wantNoFlows(t, n, f, others[:2]...)
		n.backends[others[1]].setSick(false)
		g.reload(s)
		g.settled()

		download.finish(t, pinned)
		x.finish(t, answering)
	})
}

// wantNoFlows opens connections of which none may come to these backends.
func wantNoFlows(t *testing.T, n *network, f family, names ...string) {
	t.Helper()
	got := n.spread(f, inNoZone, 24)
	for _, name := range names {
		if got[name] > 0 {
			t.Errorf("new connections come to %s: %v", name, got)
		}
	}
}

// An unreachable answer of another backend's kernel, or a move, would end the
// connection: nothing of the kind may come while the backend that it is at
// turns unhealthy, since TCP stays (semantics.md 1.8), and datagrams move.
func TestConnectionStaysAtItsUnhealthyBackend(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		download, pinned := n.startDownload(f, inNoZone)
		x := n.startExchange(f, inNoZone)
		answering := x.next(t)
		n.backends[pinned].setSick(true)
		n.backends[answering].setSick(true)
		g.awaitState("UNHEALTHY", pinned, answering)
		wantNoFlows(t, n, f, pinned, answering)
		if now := x.next(t); now == answering || now == pinned {
			t.Errorf("datagrams still come to %s, which is unhealthy", now)
		}
		download.finish(t, pinned)
	})
}
