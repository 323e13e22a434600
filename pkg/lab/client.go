package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ClientOptions are those of one process of a load test's clients. It runs in
// a client's namespace: the connections of all clients and all backends would
// be more files than one process may have open.
type ClientOptions struct {
	// Targets are echo servers as "host:port", used in turn.
	Targets []string
	// Count is how many connections are opened.
	Count int
	// Pause is the mean time between two lines of one connection (3 s).
	Pause time.Duration
	// Stop ends the connections when it can be read to its end. Out gets the
	// line "open" when all connections are, and at the end a ClientReport.
	Stop io.Reader
	Out  io.Writer
}

// ClientReport is what became of a process's connections.
type ClientReport struct {
	Backends map[string]*Fate `json:"backends"`
	// Slowest is the longest wait for an answer, in seconds.
	Slowest float64 `json:"slowest"`
}

// Fate counts what became of the connections that began on one backend.
type Fate struct {
	Connections int `json:"connections"`
	// Kept connections answered to the end, Reset ones were reset, Moved ones
	// got a line of another backend, Lost ones broke in another way.
	Kept  int `json:"kept"`
	Reset int `json:"reset"`
	Moved int `json:"moved"`
	Lost  int `json:"lost"`
	// Lines is the number of answers.
	Lines int `json:"lines"`
	// Error is one of the errors of lost connections.
	Error string `json:"error,omitempty"`
}

func (f *Fate) add(o *Fate) {
	f.Connections += o.Connections
	f.Kept += o.Kept
	f.Reset += o.Reset
	f.Moved += o.Moved
	f.Lost += o.Lost
	f.Lines += o.Lines
	if f.Error == "" {
		f.Error = o.Error
	}
}

const (
	dialTogether = 16
	dialTimeout  = 10 * time.Second
	// answerTimeout is long: what is tested is not how fast a busy machine is.
	answerTimeout = 20 * time.Second
)

var errMoved = errors.New("answered by another backend")

// clients are the connections of one process.
type clients struct {
	opts ClientOptions
	stop chan struct{}

	mu     sync.Mutex
	report ClientReport
}

// RunClients opens connections, talks over them, and reports what became of
// them. An error means that not all could be opened.
func RunClients(ctx context.Context, o ClientOptions) error {
	if o.Pause == 0 {
		o.Pause = 3 * time.Second
	}
	c := &clients{opts: o, stop: make(chan struct{}), report: ClientReport{Backends: map[string]*Fate{}}}
	conns, err := c.open(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(o.Out, "open"); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() { c.talk(conn) })
	}
	_, err = io.Copy(io.Discard, o.Stop)
	close(c.stop)
	wg.Wait()
	return errors.Join(err, json.NewEncoder(o.Out).Encode(c.report))
}

// open opens all connections, some at a time.
func (c *clients) open(ctx context.Context) ([]net.Conn, error) {
	conns := make([]net.Conn, c.opts.Count)
	errs := make([]error, dialTogether)
	dialer := net.Dialer{Timeout: dialTimeout}
	dialer.SetMultipathTCP(false)
	var wg sync.WaitGroup
	for k := range dialTogether {
		wg.Go(func() {
			for i := k; i < len(conns) && errs[k] == nil; i += dialTogether {
				conns[i], errs[k] = dialer.DialContext(ctx, "tcp", c.opts.Targets[i%len(c.opts.Targets)])
			}
		})
	}
	wg.Wait()
	return conns, errors.Join(errs...)
}

// talk sends numbered lines over a connection and checks the answers, until
// Stop, after which it does so once more.
func (c *clients) talk(conn net.Conn) {
	defer conn.Close()
	t := &talker{conn: conn, in: bufio.NewReaderSize(conn, 64)}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for last := false; !last && t.err == nil; {
		select {
		case <-pause.C:
		case <-c.stop:
			last = true
		}
		t.say()
		pause.Reset(c.opts.Pause/2 + rand.N(c.opts.Pause))
	}
	c.record(t)
}

// talker is one connection.
type talker struct {
	conn    net.Conn
	in      *bufio.Reader
	backend string
	lines   int
	slowest time.Duration
	err     error
}

func (t *talker) say() {
	begin := time.Now()
	want := strconv.Itoa(t.lines + 1)
	t.conn.SetDeadline(begin.Add(answerTimeout))
	if _, t.err = io.WriteString(t.conn, want+"\n"); t.err != nil {
		return
	}
	line, err := t.in.ReadSlice('\n')
	if err != nil {
		t.err = err
		return
	}
	name, number, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	switch {
	case t.backend == "":
		t.backend = name
	case t.backend != name:
		t.err = errMoved
		return
	}
	if number != want {
		t.err = fmt.Errorf("line %q answers line %s", line, want)
		return
	}
	t.lines++
	t.slowest = max(t.slowest, time.Since(begin))
}

func (c *clients) record(t *talker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &Fate{Connections: 1, Lines: t.lines}
	switch {
	case t.err == nil:
		one.Kept = 1
	case errors.Is(t.err, syscall.ECONNRESET), errors.Is(t.err, syscall.EPIPE):
		one.Reset = 1
	case errors.Is(t.err, errMoved):
		one.Moved = 1
	default:
		one.Lost = 1
		one.Error = t.err.Error()
		if errors.Is(t.err, os.ErrDeadlineExceeded) {
			one.Error = "no answer within " + answerTimeout.String()
		}
	}
	all := c.report.Backends
	if all[t.backend] == nil {
		all[t.backend] = &Fate{}
	}
	all[t.backend].add(one)
	c.report.Slowest = max(c.report.Slowest, t.slowest.Seconds())
}
