package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// How backends flap: each is sick for half of a cycle, one after the other, and
// now and then all are at once.
const (
	flapCycle   = 6 * time.Second
	flapShift   = 700 * time.Millisecond
	doomCycle   = 15 * time.Second
	doomBegin   = 9 * time.Second
	doomEnd     = 13 * time.Second
	flapControl = 100 * time.Millisecond
)

// sickAt reports whether the backend of that number is sick at a time.
func sickAt(number int, t time.Duration) bool {
	if in := t % doomCycle; in >= doomBegin && in < doomEnd {
		return true
	}
	return (t+time.Duration(number)*flapShift)%flapCycle < flapCycle/2
}

// flap makes backends sick and well again until ctx ends, then well.
func (l *Lab) flap(ctx context.Context) {
	begin := time.Now()
	tick := time.NewTicker(flapControl)
	defer tick.Stop()
	for {
		for i, h := range l.plan.withRole(roleBackend) {
			l.backends[h.name].SetSick(ctx.Err() == nil && sickAt(i, time.Since(begin)))
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// shake lets backends flap and goes through the variants of the configuration.
func (l *Lab) shake(ctx context.Context, o LoadOptions, report *LoadReport) error {
	flapping, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.flap(flapping) })
	defer wg.Wait()
	defer stop()
	states := map[string]string{}
	for i := range o.Reloads {
		v := schedule(i, o.Reloads)
		if err := l.change(ctx, v, report); err != nil {
			return fmt.Errorf("reload %d, %s: %w", i+1, v.what, err)
		}
		if i == o.Reloads/2 {
			// Short requests that were under way on the leaver ended with it.
			l.traffic.Reset()
		}
		flips, err := l.countFlips(ctx, states)
		if err != nil {
			return err
		}
		report.Flips += flips
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.Interval):
		}
	}
	return nil
}

// change brings a variant in force.
func (l *Lab) change(ctx context.Context, v variant, report *LoadReport) error {
	text, err := v.text()
	if err != nil {
		return err
	}
	if err := report.takeRequests(l.traffic); err != nil {
		return err
	}
	if err := l.space.writeConfig(text); err != nil {
		return err
	}
	return l.gateway.reload(ctx)
}

// countFlips counts the backends whose health differs from the last time.
func (l *Lab) countFlips(ctx context.Context, states map[string]string) (int, error) {
	list, err := l.gateway.client.Backends(ctx, serviceName)
	if err != nil {
		return 0, err
	}
	flips := 0
	for _, b := range list.Backends {
		if old, ok := states[b.Address]; ok && old != b.Health {
			flips++
		}
		states[b.Address] = b.Health
	}
	return flips, nil
}

// clientProcess is one process of RunClients.
type clientProcess struct {
	*process
	out    *bufio.Reader
	stderr bytes.Buffer
}

// startClients starts a process in each client's namespace and returns when all
// connections are open. The processes that it returns are to be killed, also on
// an error.
func (l *Lab) startClients(connections int) ([]*clientProcess, error) {
	hosts := l.plan.withRole(roleClient)
	var procs []*clientProcess
	for i, h := range hosts {
		count := (connections + i) / len(hosts)
		p, err := l.startClient(h.name, count)
		if err != nil {
			return procs, err
		}
		procs = append(procs, p)
	}
	for _, p := range procs {
		line, err := p.out.ReadString('\n')
		if err != nil || line != "open\n" {
			p.kill()
			return procs, fmt.Errorf("open connections: %w: %s", errors.Join(err, p.err), p.stderr.String())
		}
	}
	return procs, nil
}

func (l *Lab) startClient(name string, count int) (*clientProcess, error) {
	args := []string{"lab", "clients", "--count", strconv.Itoa(count)}
	for _, vip := range l.plan.vips {
		args = append(args, "--target", hostPort(vip, echoPort))
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &clientProcess{out: bufio.NewReader(read)}
	p.process, err = startProcess(l.net.hosts[name], write, &p.stderr, l.opts.Executable, args...)
	write.Close()
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go func() {
		// What it wrote last may still be read when it has ended.
		<-l.life.Done()
		read.Close()
	}()
	return p, nil
}

// finish has the process end its connections and returns its report.
func (p *clientProcess) finish() (report ClientReport, err error) {
	if err := p.stdin.Close(); err != nil {
		return report, err
	}
	if err := json.NewDecoder(p.out).Decode(&report); err != nil {
		p.kill()
		return report, fmt.Errorf("read the clients' report: %w: %s", errors.Join(err, p.err), p.stderr.String())
	}
	<-p.done
	return report, p.err
}
