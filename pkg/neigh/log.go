package neigh

import (
	"log/slog"
	"net/netip"
	"time"
)

// maxLogged is how many changes a second are logged one by one. A failing router
// would otherwise write a line for each backend behind it.
const maxLogged = 20

// change is one entry before and after.
type change struct{ old, now Entry }

// changeLog logs changes, the first of each second in full and the rest as a sum.
type changeLog struct {
	log     *slog.Logger
	window  time.Time // end of the current second
	logged  int
	skipped map[State]int
}

func (l *changeLog) add(changes []change) {
	for _, c := range changes {
		if l.logged++; l.logged <= maxLogged {
			l.one(c)
			continue
		}
		if l.skipped == nil {
			l.skipped = map[State]int{}
		}
		l.skipped[c.now.State]++
	}
}

// flush ends the current second, if it is over.
func (l *changeLog) flush(now time.Time) {
	if now.Before(l.window) {
		return
	}
	if l.skipped != nil {
		l.log.Info("more next hops changed", "states", l.skipped)
	}
	l.window, l.logged, l.skipped = now.Add(time.Second), 0, nil
}

func (l *changeLog) one(c change) {
	log := l.log.Info
	if c.old.Usable() && !c.now.Usable() {
		log = l.log.Warn
	}
	log("next hop changed", "backend", c.now.Addr, "state", c.now.State, "via", addrString(c.now.Via),
		"mac", c.now.MAC.String(), "link", c.now.LinkName)
}

func addrString(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
