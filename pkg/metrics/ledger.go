package metrics

// counts is what is counted together: packets, bytes and flows, or less.
type counts [3]uint64

// ledger makes counters that never fall out of numbers that do. A record of the
// data plane or of the checker restarts from 0 when it is given to somebody
// else, and a record can change owner without restarting. So only what a record
// gained since it was last seen counts, for who owns it now.
//
// S names a record and L, the labels, its owner.
type ledger[S, L comparable] struct {
	last   map[S]counts
	totals map[L]counts
	seen   map[L]bool
}

func newLedger[S, L comparable]() *ledger[S, L] {
	return &ledger[S, L]{last: map[S]counts{}, totals: map[L]counts{}, seen: map[L]bool{}}
}

// begin starts a reading of all records; end is its end. Without the two, owners
// stay for good.
func (l *ledger[S, L]) begin() { l.seen = map[L]bool{} }

// add enters what a record shows. The first time a record is seen, all of it
// counts: an earlier process counted it.
func (l *ledger[S, L]) add(record S, owner L, now counts) {
	last := l.last[record]
	l.last[record] = now
	total := l.totals[owner]
	for i := range now {
		if now[i] < last[i] {
			last[i] = 0 // the record restarted
		}
		total[i] += now[i] - last[i]
	}
	l.totals[owner] = total
	l.seen[owner] = true
}

// end forgets the owners that have no record any more.
func (l *ledger[S, L]) end() {
	for owner := range l.totals {
		if !l.seen[owner] {
			delete(l.totals, owner)
		}
	}
}
