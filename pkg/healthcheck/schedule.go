package healthcheck

import (
	"container/heap"
	"time"
)

const (
	// startSpacing spreads the first probes of targets that are added
	// together: n of them begin within n times this, so that a thousand
	// backends do not make a burst and a single one is judged soon.
	startSpacing = time.Millisecond
	// startWindow is the least time first probes are spread over.
	startWindow = 100 * time.Millisecond
)

// schedule is a heap of idle records by due time.
type schedule []*record

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].pos, s[j].pos = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	r := x.(*record)
	r.pos = len(*s)
	*s = append(*s, r)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	old := *s
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	r.pos = -1
	return r
}

func (s *schedule) add(r *record) { heap.Push(s, r) }

// remove takes r out if it is in.
func (s *schedule) remove(r *record) {
	if r.pos >= 0 && r.pos < len(*s) && (*s)[r.pos] == r {
		heap.Remove(s, r.pos)
	}
}

// takeDue returns the first record that is due at now, or nil.
func (s *schedule) takeDue(now time.Time) *record {
	if len(*s) == 0 || (*s)[0].due.After(now) {
		return nil
	}
	return heap.Pop(s).(*record)
}

// firstDelay picks a target's first start, uniform over a window that is never
// longer than its interval. n is how many targets start together and random
// returns a number in [0, n).
func firstDelay(n int, interval time.Duration, random func(int64) int64) time.Duration {
	window := min(interval, max(startWindow, time.Duration(n)*startSpacing))
	return time.Duration(random(int64(window)))
}
