package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"l4lb/pkg/admin"
)

// boardInterval is how often the table is drawn.
const boardInterval = 500 * time.Millisecond

// board is what the table shows.
type board struct {
	zones    []admin.Zone
	backends []admin.Backend
	answers  map[string]tally // by client group
	held     map[string]int   // by backend
	down     map[string]bool
}

// watch draws the table until ctx ends.
func (l *Lab) watch(ctx context.Context) {
	if l.screen.columns == 0 {
		return
	}
	tick := time.NewTicker(boardInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b := l.board(ctx); ctx.Err() == nil {
			l.screen.Draw(b.lines())
		}
	}
}

// board gathers what there is. While there is no daemon, its part is empty.
func (l *Lab) board(ctx context.Context) board {
	ctx, cancel := context.WithTimeout(ctx, boardInterval)
	defer cancel()
	b := board{answers: map[string]tally{}, held: l.holder.perBackend(), down: l.down()}
	if list, err := l.gateway.client.Zones(ctx); err == nil {
		b.zones = list.Zones
	}
	if list, err := l.gateway.client.Backends(ctx, serviceName); err == nil {
		b.backends = list.Backends
	}
	tallies := l.traffic.Tallies()
	for i, src := range l.traffic.sources {
		c, ok := b.answers[src.group]
		if !ok {
			c.answers = map[string]int{}
		}
		c.add(tallies[i])
		b.answers[src.group] = c
	}
	return b
}

// lines are the table's lines.
func (b board) lines() []string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	b.writeZones(w)
	fmt.Fprintln(w)
	b.writeBackends(w)
	w.Flush()
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}

// writeZones is the matrix of client zone and backend zone: the packets that
// the gateway has counted.
func (b board) writeZones(w *tabwriter.Writer) {
	var columns []string
	for _, z := range b.zones {
		if z.Backends > 0 {
			columns = append(columns, z.Name)
		}
	}
	if columns == nil {
		fmt.Fprintln(w, "no daemon is running")
		return
	}
	fmt.Fprintf(w, "packets from\t%s\n", prefixed("to ", columns))
	for _, z := range b.zones {
		to := map[string]uint64{}
		for _, t := range z.To {
			to[t.Zone] = t.Packets
		}
		cells := make([]string, len(columns))
		for i, name := range columns {
			cells[i] = strconv.FormatUint(to[name], 10)
		}
		fmt.Fprintf(w, "%s\t%s\n", z.Name, strings.Join(cells, "\t"))
	}
}

// writeBackends has one line for each instance: its health, new connections of
// each client group since the step began, and the connections it holds.
func (b board) writeBackends(w *tabwriter.Writer) {
	fmt.Fprintf(w, "new connections\tzone\thealth\tused\t%s\theld\n", strings.Join(clientGroups(), "\t"))
	for _, name := range b.instances() {
		first, state, eligible := admin.Backend{}, "", false
		for _, m := range b.backends {
			if m.Instance != name {
				continue
			}
			if first.Instance == "" {
				first, state = m, m.State
			}
			if m.State != state {
				state = "MIXED" // one address family ahead of the other
			}
			eligible = eligible || m.Eligible
		}
		cells := make([]string, 0, 4)
		for _, group := range clientGroups() {
			cells = append(cells, strconv.Itoa(b.answers[group].answers[name]))
		}
		if b.down[name] {
			name += " (down)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", name, first.Zone, state, yes(eligible),
			strings.Join(cells, "\t"), b.held[first.Instance])
	}
}

// instances are the backends' names, in the order of the configuration.
func (b board) instances() []string {
	var names []string
	for _, m := range b.backends {
		if !slices.Contains(names, m.Instance) {
			names = append(names, m.Instance)
		}
	}
	return names
}

func prefixed(prefix string, names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = prefix + name
	}
	return strings.Join(out, "\t")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
