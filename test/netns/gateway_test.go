package netns

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"l4lb/pkg/admin"
	"l4lb/pkg/loader"
)

// executable is where TestMain puts the daemon.
func executable() string { return filepath.Join(os.Getenv(executableDir), "l4lbd") }

const executableDir = "L4LB_NETNS_TEST_DIR"

// parallel tests wait for timers far more than they work.
const parallel = "4"

// TestMain builds the daemon once for all tests.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "l4lb-netns-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := errors.Join(os.Setenv(executableDir, dir), flag.Set("test.parallel", parallel)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-o", executable(), "l4lb/cmd/l4lbd")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build l4lbd: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// gateway is a daemon in the gateway's namespace.
type gateway struct {
	t      *testing.T
	net    *network
	name   string // of its pinned state
	dir    string
	client *admin.Client
	cmd    *exec.Cmd
	log    *logBuffer
	ended  chan error
}

// newGateway prepares a daemon with a configuration.
func newGateway(n *network, s settings) *gateway {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "l4lb-gw-") // short: it has a socket
	if err != nil {
		n.t.Fatal(err)
	}
	g := &gateway{t: n.t, net: n, dir: dir, name: filepath.Base(dir), log: &logBuffer{}}
	g.client = admin.NewClient("unix:" + g.socket())
	g.configure(s)
	n.t.Cleanup(func() {
		g.stop()
		pins := filepath.Join("/sys/fs/bpf/l4lb", g.name)
		if err := errors.Join(loader.Discard(pins), os.RemoveAll(dir)); err != nil {
			n.t.Error(err)
		}
		if n.t.Failed() {
			n.t.Logf("the daemon's log:\n%s", g.log)
		}
	})
	return g
}

func (g *gateway) socket() string     { return filepath.Join(g.dir, "admin.sock") }
func (g *gateway) configPath() string { return filepath.Join(g.dir, "l4lbd.yaml") }

func (g *gateway) configure(s settings) {
	g.t.Helper()
	g.write(s.yaml(g))
}

func (g *gateway) write(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.configPath(), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// startGateway runs a daemon until every backend was judged.
func startGateway(n *network, s settings, args ...string) *gateway {
	n.t.Helper()
	g := newGateway(n, s)
	g.start(args...)
	g.settled()
	return g
}

// start runs the daemon and waits until it forwards.
func (g *gateway) start(args ...string) {
	g.t.Helper()
	g.run(args...)
	eventually(g.t, 20*time.Second, func() error {
		select {
		case err := <-g.ended:
			g.ended <- err
			g.t.Fatalf("the daemon ended: %v\n%s", err, g.log)
		default:
		}
		status, err := g.status()
		if err == nil && !status.Ready {
			err = errors.New("not ready")
		}
		return err
	})
}

// run starts the process on a thread that stays in the namespace until the
// process is gone: the kernel then kills it when the tests die.
func (g *gateway) run(args ...string) {
	g.t.Helper()
	cmd := exec.Command(executable(), append([]string{"run", "--config", g.configPath()}, args...)...)
	cmd.Stderr = g.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan struct{})
	g.cmd, g.ended = cmd, make(chan error, 1)
	ended := g.net.gateway.Go(func() error {
		err := cmd.Start()
		close(started)
		if err != nil {
			return err
		}
		return cmd.Wait()
	})
	<-started
	go func() { g.ended <- <-ended }()
}

// wait returns the process's exit status.
func (g *gateway) wait() int {
	g.t.Helper()
	select {
	case err := <-g.ended:
		g.ended <- err
		return g.cmd.ProcessState.ExitCode()
	case <-time.After(15 * time.Second):
		g.t.Fatalf("the daemon does not end\n%s", g.log)
		return 0
	}
}

func (g *gateway) signal(s os.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

// kill is kill -9.
func (g *gateway) kill() {
	g.t.Helper()
	g.signal(syscall.SIGKILL)
	g.wait()
}

// stop ends the process, if there is one, so that it leaves nothing behind.
func (g *gateway) stop() {
	if g.cmd == nil || g.cmd.Process == nil {
		return
	}
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // or it is dead already
	select {
	case <-g.ended:
	case <-time.After(10 * time.Second):
		g.t.Errorf("the daemon does not end on SIGTERM")
		_ = g.cmd.Process.Kill()
		<-g.ended
	}
}

// reload makes the daemon read its file and waits until it has.
func (g *gateway) reload(s settings) {
	g.t.Helper()
	before, err := g.status()
	if err != nil {
		g.t.Fatal(err)
	}
	g.configure(s)
	g.signal(syscall.SIGHUP)
	eventually(g.t, 5*time.Second, func() error {
		now, err := g.status()
		if err == nil && !now.Config.InForceSince.After(before.Config.InForceSince) {
			err = fmt.Errorf("not in force: %s", now.Config.LastError)
		}
		return err
	})
}

// logBuffer collects a process's output.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
