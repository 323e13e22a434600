package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
)

// A daemon that is killed leaves its data plane forwarding, new connections
// too; the next one adopts it, and no connection is lost or moved.
func TestKilledDaemonLeavesForwardingAndIsSucceeded(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.service = zonalSpill
		g := startGateway(n, s)
		n.backends["b2"].setSick(true)
		g.awaitState("UNHEALTHY", "b2")
		download, pinned := n.startDownload(f, inNoZone)
		x := n.startExchange(f, inZoneA)
		answering := x.next(t)
		program := n.attached()

		g.kill()
		wantAnswers(t, n, f, inZoneA, "a1 a2")
		wantAnswers(t, n, f, inNoZone, "a1 a2 b1")
		stays(t, x, answering)
		if now := n.attached(); now != program {
			t.Errorf("program %+v is attached, was %+v", now, program)
		}

		g.start()
		if now := n.attached(); now.id == program.id || now.id == 0 || now.mode != program.mode {
			t.Errorf("program %+v after the restart, was %+v", now, program)
		}
		wantAnswers(t, n, f, inNoZone, "a1 a2 b1") // b2 is known to be sick
		n.backends["b2"].setSick(false)
		g.awaitState("HEALTHY", "b2")
		wantAnswers(t, n, f, inZoneB, "b1 b2")
		download.finish(t, pinned)
		x.finish(t, answering)
	})
}

// program is what is attached to the gateway's interface.
type program struct {
	id   uint32
	mode uint8
}

func (n *network) attached() program {
	n.t.Helper()
	attrs, err := n.gateway.Link("eth0")
	if err != nil {
		n.t.Fatal(err)
	}
	if attrs.Xdp == nil || !attrs.Xdp.Attached {
		return program{}
	}
	return program{attrs.Xdp.ProgId, uint8(attrs.Xdp.AttachMode)}
}

// A file with mistakes changes nothing, and the log says where they are.
func TestInvalidReloadChangesNothing(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := startGateway(n, fourBackends())
	x := n.startExchange(families[0], inNoZone)
	answering, before, program := x.next(t), mustStatus(t, g), n.attached()
	g.write("l4lb:\n  gateway: {name: x, interfaces: [eth0]}\nbackendServices:\n- {name: web, backends: [{group: nowhere}]}\n")
	g.signal(syscall.SIGHUP)
	eventually(t, 5*time.Second, func() error {
		if now := mustStatus(t, g); now.Config.LastError == "" {
			return fmt.Errorf("the reload was not refused")
		}
		return nil
	})
	now := mustStatus(t, g)
	if !now.Ready || !now.Config.InForceSince.Equal(before.Config.InForceSince) || len(now.ForwardingRules) != 4 {
		t.Errorf("status %+v", now)
	}
	if log := g.log.String(); !strings.Contains(log, g.configPath()+":4:") || !strings.Contains(log, "nowhere") {
		t.Error("the log does not say where the mistake is")
	}
	if now := n.attached(); now != program {
		t.Errorf("program %+v is attached, was %+v", now, program)
	}
	wantAnswers(t, n, families[0], inNoZone, "a1 a2 b1 b2")
	x.finish(t, answering)
	g.reload(fourBackends().without("a1"))
	wantAnswers(t, n, families[0], inNoZone, "a2 b1 b2")
}

// SIGTERM takes the program off the interface, unless it is to stay.
func TestTerminationDetachesUnlessToldNotTo(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep=%v", keep), func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			var args []string
			if keep {
				args = append(args, "--keep-datapath")
			}
			g := startGateway(n, fourBackends(), args...)
			g.signal(syscall.SIGTERM)
			if status := g.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			pins, _ := filepath.Glob(filepath.Join("/sys/fs/bpf/l4lb", g.name, "*"))
			if attached := n.attached().id != 0; attached != keep || (len(pins) > 0) != keep {
				t.Errorf("attached: %v, pinned: %v", attached, pins)
			}
			if keep {
				wantAnswers(t, n, families[0], inNoZone, "a1 a2 b1 b2")
				return
			}
			if _, err := n.talk(families[0], inNoZone); err == nil {
				t.Error("the VIP still answers")
			}
		})
	}
}

// A second daemon on the interface is refused and told who has it; so is one
// that finds another program there.
func TestSecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := startGateway(n, fourBackends())
	second := newGateway(n, fourBackends())
	second.run()
	if status := second.wait(); status != 1 {
		t.Errorf("exit status %d", status)
	}
	want := fmt.Sprintf("interface eth0: is held by another process: pid %d with configuration %s", g.cmd.Process.Pid, g.configPath())
	if !strings.Contains(second.log.String(), want) {
		t.Errorf("it says %q, want %q", second.log, want)
	}
	// A daemon that was killed holds nothing, but its program does.
	g.kill()
	second.run()
	if status := second.wait(); status != 1 || !strings.Contains(second.log.String(), "l4lb_ingress") {
		t.Errorf("exit status %d, log %s", status, second.log)
	}
	wantAnswers(t, n, families[0], inNoZone, "a1 a2 b1 b2")
	g.start() // its own successor may
}

// Generic mode is what is asked for, and works.
func TestGenericMode(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.mode, s.service = "generic", zonalSpill
		g := startGateway(n, s)
		if got := n.attached(); got.mode != nl.XDP_ATTACHED_SKB {
			t.Errorf("attached: %+v", got)
		}
		if got := mustStatus(t, g).Interfaces; len(got) != 1 || got[0].XDPMode != "generic" || !got[0].Attached {
			t.Errorf("status: %+v", got)
		}
		wantAnswers(t, n, f, inZoneA, "a1 a2")
		download, pinned := n.startDownload(f, inZoneB)
		x := n.startExchange(f, inZoneB)
		stays(t, x, x.next(t))
		download.finish(t, pinned)
		if _, err := os.Stat(g.socket()); err != nil {
			t.Error(err)
		}
	})
}
