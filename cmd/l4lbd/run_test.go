package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRunFromStartToEnd(t *testing.T) {
	s := newSite(t)
	p := s.start("run", "--config", s.config)
	s.eventually("the gateway is ready", s.ready)
	if status, body := s.get("/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	if !s.attached() {
		t.Error("it is ready and no program is attached")
	}
	s.eventually("the backend is healthy and eligible", func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, `l4lb_service_eligible_backends{family="ipv4",service="web"} 1`)
	})
	if status, stdout, stderr := l4lbd(t, "status", "--admin", s.admin); status != 0 || !strings.Contains(stdout, "All is well.") {
		t.Errorf("status: %d, %s, %s", status, stdout, stderr)
	}

	s.configure("nonsense: 1\nmore: 2\n")
	p.signal(unix.SIGHUP)
	s.eventually("the bad file is refused", p.logged("configuration not reloaded"))
	for _, mistake := range []string{"gateway.yaml:11:1", "gateway.yaml:12:1"} {
		if !p.logged(mistake)() {
			t.Errorf("the log lacks %s", mistake)
		}
	}
	if _, body := s.get("/metrics"); !s.ready() || !strings.Contains(body, "l4lb_config_last_load_refused 1") {
		t.Error("a refused file made the gateway unready, or does not show in the metrics")
	}
	s.configure("")
	p.signal(unix.SIGHUP)
	s.eventually("the good file is in force", p.logged("configuration reloaded"))

	p.signal(unix.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if s.attached() {
		t.Error("the program is still attached")
	}
	if _, err := os.Stat(filepath.Join("/sys/fs/bpf/l4lb", s.name())); !os.IsNotExist(err) {
		t.Errorf("pinned state is left: %v", err)
	}
}

func TestAKilledDaemonLeavesItsDataPlaneToTheNext(t *testing.T) {
	s := newSite(t)
	first := s.start("run", "--config", s.config)
	s.eventually("the first gateway is ready", s.ready)

	second := s.start("run", "--config", s.config)
	if status := second.wait(); status != 1 {
		t.Errorf("a second daemon on the interface: exit status %d", status)
	}
	if want := fmt.Sprintf("interface eth0: is held by another process: pid %d with configuration %s", first.cmd.Process.Pid, s.config); !second.logged(want)() {
		t.Errorf("the second daemon does not say %q:\n%s", want, second.log)
	}

	first.signal(unix.SIGKILL)
	first.wait()
	if !s.attached() {
		t.Fatal("the program went with its daemon")
	}
	third := s.start("run", "--config", s.config, "--keep-datapath", "--log-format", "json")
	s.eventually("the next gateway is ready", s.ready)
	if !third.logged(`"msg":"adopting the data plane of an earlier process"`)() {
		t.Error("the next gateway did not adopt the data plane")
	}
	third.signal(unix.SIGTERM)
	if status := third.wait(); status != 0 || !s.attached() {
		t.Errorf("told to keep the data plane: exit status %d, attached %v", status, s.attached())
	}
	last := s.start("run", "--config", s.config, "--discard-state")
	s.eventually("the last gateway is ready", s.ready)
	if last.logged("adopting")() {
		t.Error("state was adopted that was to be discarded")
	}
	last.signal(unix.SIGTERM)
	if status := last.wait(); status != 0 || s.attached() {
		t.Errorf("at the end: exit status %d, attached %v", status, s.attached())
	}
}

func TestRunRefusesAVIPOfTheHost(t *testing.T) {
	s := newSite(t)
	s.ns.AddAddr("lo", "192.0.2.10/32")
	p := s.start("run", "--config", s.config)
	if status := p.wait(); status != 2 || !p.logged("192.0.2.10 is an address of this host")() {
		t.Errorf("exit status %d, %s", status, p.log)
	}
	if s.attached() {
		t.Error("a refused configuration was attached")
	}
}

func TestRunFollowsItsInterface(t *testing.T) {
	s := newSite(t)
	p := s.start("run", "--config", s.config)
	s.eventually("the gateway is ready", s.ready)
	s.ns.SetMAC("eth0", net.HardwareAddr{2, 0, 0, 0, 0, 0x77})
	s.eventually("the new link address is known", p.logged("link address changed"))
	if err := s.ns.DelLink("eth0"); err != nil {
		t.Fatal(err)
	}
	s.eventually("the lost interface makes it unready", func() bool { return !s.ready() })
	p.signal(unix.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestRunFailsWhereItCannotAttach(t *testing.T) {
	s := newSite(t)
	s.ns.AttachPass("eth0")
	p := s.start("run", "--config", s.config)
	if status := p.wait(); status != 1 || !p.logged("interface has another XDP program")() {
		t.Errorf("exit status %d, %s", status, p.log)
	}
	if _, err := os.Stat(filepath.Join("/sys/fs/bpf/l4lb", s.name())); !os.IsNotExist(err) {
		t.Errorf("pinned state is left: %v", err)
	}
}
