package lab

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// screen is what the person sees: two lines for each step and, on a terminal,
// below them a table that is drawn again in place.
type screen struct {
	out io.Writer
	// columns is the width of the terminal; 0 where there is none, and then
	// no table either.
	columns int

	mu    sync.Mutex
	board []string // the table as drawn
	step  string   // the step that is under way
	count string   // "3/9"
	begun time.Time
}

func newScreen(out io.Writer) *screen { return &screen{out: out, columns: terminalColumns(out)} }

// terminalColumns is the width of the terminal that w is, 0 if it is none.
func terminalColumns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// Line prints a line that stays, above the table.
func (s *screen) Line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(fmt.Sprintf(format, args...))
}

func (s *screen) line(text string) {
	board := s.board
	s.erase()
	fmt.Fprintln(s.out, text)
	s.draw(board)
}

// Begin says which step is under way.
func (s *screen) Begin(number, of int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.count, s.begun = name, fmt.Sprintf("%d/%d", number, of), time.Now()
}

// Done prints the step's lines: what held, where each client group's
// connections went, and how soon the gateway acted on it.
func (s *screen) Done(notice time.Duration, t *traffic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.line(fmt.Sprintf("ok    %s  %s", s.count, s.step))
	s.line(fmt.Sprintf("           %s; in force after %.1f s", shares(t.sources, t.Tallies()), notice.Seconds()))
	s.step = ""
}

// Failed prints that the step did not hold.
func (s *screen) Failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.line(fmt.Sprintf("FAIL  %s  %s", s.count, s.step))
	s.step = ""
}

// Draw replaces the table; without a terminal there is none.
func (s *screen) Draw(board []string) {
	if s.columns == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != "" {
		title := fmt.Sprintf("  ..  %s  %s", s.count, s.step)
		board = append([]string{title}, board...)
	}
	s.erase()
	s.draw(board)
}

// Clear takes the table away.
func (s *screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

// erase moves up to the table's first line and clears from there.
func (s *screen) erase() {
	if len(s.board) > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", len(s.board))
	}
	s.board = nil
}

func (s *screen) draw(board []string) {
	if len(board) == 0 {
		return
	}
	for _, line := range board {
		// A line that the terminal wraps would be two to move up.
		if text := []rune(line); len(text) >= s.columns {
			line = string(text[:s.columns-1])
		}
		fmt.Fprintln(s.out, line)
	}
	s.board = board
}

// shares says in short where the connections of each client group went:
// "zone-a: a 51% b 49%" says so of zone-a's.
func shares(list []source, tallies []tally) string {
	var parts []string
	for _, group := range clientGroups() {
		var c tally
		c.answers = map[string]int{}
		for i, src := range list {
			if src.group == group {
				c.add(tallies[i])
			}
		}
		parts = append(parts, group+": "+c.shares())
	}
	return strings.Join(parts, ", ")
}

// add puts two tallies together.
func (t *tally) add(o tally) {
	for name, n := range o.answers {
		t.answers[name] += n
	}
	t.refused += o.refused
	t.failed += o.failed
}

// shares is the part of each pool in the answers, as "a 62% b 38%". The last
// takes what rounding leaves.
func (t *tally) shares() string {
	pools := map[string]int{}
	for name, n := range t.answers {
		pools[poolOf(name)] += n
	}
	names := sortedKeys(pools)
	parts := make([]string, len(names))
	left := 100
	for i, pool := range names {
		share := pools[pool] * 100 / t.total()
		if i == len(names)-1 {
			share = left
		}
		left -= share
		parts[i] = fmt.Sprintf("%s %d%%", pool, share)
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, " ")
}

// poolOf is the middle of an instance name: "a" of "web-a-1".
func poolOf(instance string) string {
	parts := strings.Split(instance, "-")
	return parts[len(parts)/2]
}
