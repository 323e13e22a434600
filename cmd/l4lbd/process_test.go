package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// patience bounds what a process may take for anything.
const patience = 15 * time.Second

// site is a gateway's namespace with one backend on its only link.
type site struct {
	t      *testing.T
	ns     *testutil.NetNS
	config string
	admin  string
	client *http.Client
}

func newSite(t *testing.T) *site {
	s := &site{t: t, ns: testutil.NewNetNS(t, "gateway"), admin: "unix:" + filepath.Join(t.TempDir(), "admin.sock")}
	backend := testutil.NewNetNS(t, "backend")
	testutil.Veth(t, s.ns, "eth0", backend, "eth0")
	s.ns.AddAddr("eth0", "10.1.0.1/16")
	backend.AddAddr("eth0", "10.1.0.11/16")
	// Probes come as packets of clients do: for the VIP.
	backend.AddAddr("lo", "192.0.2.10/32")
	lis := backend.Listen("tcp", ":80")
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.ns.DialContext, DisableKeepAlives: true}, Timeout: patience}
	s.config = filepath.Join(t.TempDir(), "gateway.yaml")
	s.configure("")
	t.Cleanup(func() { os.RemoveAll(filepath.Join("/sys/fs/bpf/l4lb", s.name())) })
	return s
}

// name is the gateway's: pinned state is shared by all namespaces.
func (s *site) name() string { return fmt.Sprintf("test-%d", os.Getpid()) }

// configure writes the configuration, followed by more.
func (s *site) configure(more string) {
	s.t.Helper()
	text := fmt.Sprintf(`l4lb:
  gateway: {name: %s, interfaces: [eth0], adminListen: %q, flowTable: {entries: 1024}}
healthChecks:
- {name: hc, type: TCP, checkIntervalSec: 1, timeoutSec: 1, tcpHealthCheck: {port: 80}}
networkEndpointGroups:
- {name: web, networkEndpoints: [{instance: web-1, ipAddress: 10.1.0.11}]}
backendServices:
- {name: web, healthChecks: [hc], backends: [{group: web}]}
forwardingRules:
- {name: web-vip, IPAddress: 192.0.2.10, IPProtocol: TCP, ports: [80], backendService: web}
%s`, s.name(), s.admin, more)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// attached reports whether an XDP program is on the link.
func (s *site) attached() bool {
	s.t.Helper()
	attrs, err := s.ns.Link("eth0")
	if err != nil {
		s.t.Fatal(err)
	}
	return attrs.Xdp != nil && attrs.Xdp.Attached
}

// get asks the gateway's listener.
func (s *site) get(path string) (status int, body string) {
	resp, err := s.client.Get("http://127.0.0.1:9464" + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func (s *site) ready() bool {
	status, _ := s.get("/readyz")
	return status == http.StatusOK
}

// eventually waits until a condition holds.
func (s *site) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// process is a command that runs in the site's namespace.
type process struct {
	s   *site
	cmd *exec.Cmd
	log *logBuffer
}

func (s *site) start(args ...string) *process {
	s.t.Helper()
	p := &process{s: s, log: &logBuffer{}}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	p.cmd.Stderr = p.log
	s.ns.Do(p.cmd.Start)
	s.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
		if s.t.Failed() {
			s.t.Logf("log of %v:\n%s", args, p.log)
		}
	})
	return p
}

// signal sends a signal.
func (p *process) signal(sig unix.Signal) {
	p.s.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.s.t.Fatal(err)
	}
}

// wait returns the exit status, -1 after a signal.
func (p *process) wait() int {
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) logged(text string) func() bool {
	return func() bool { return strings.Contains(p.log.String(), text) }
}

// logBuffer is written by a process and read by its test.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is what was written so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
