package netns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// capturing is a `l4lbd capture` that runs.
type capturing struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *logBuffer
	log  *logBuffer
	file string
}

// startCapture runs the verb until the gateway runs its program.
func (g *gateway) startCapture(args ...string) *capturing {
	g.t.Helper()
	c := &capturing{t: g.t, out: &logBuffer{}, log: &logBuffer{}, file: filepath.Join(g.dir, "capture.pcapng")}
	own := g.program()
	c.cmd = exec.Command(executable(), append([]string{"capture", "--admin", "unix:" + g.socket(), "--out", c.file}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // or it is dead already
		_ = c.cmd.Wait()
	})
	eventually(g.t, 20*time.Second, func() error {
		if g.program() == own {
			return fmt.Errorf("no capture runs: %s", c.log)
		}
		return nil
	})
	return c
}

// end stops the verb as ^C does.
func (c *capturing) end() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Fatal(err)
	}
	c.wait()
}

func (c *capturing) wait() {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			c.t.Fatalf("capture: %v\n%s", err, c.log)
		}
	case <-time.After(20 * time.Second):
		c.t.Fatalf("the capture does not end\n%s", c.log)
	}
}

// program is the id of the one on the gateway's interface.
func (g *gateway) program() uint32 {
	g.t.Helper()
	links, err := loader.PinnedLinks(filepath.Join("/sys/fs/bpf/l4lb", g.name))
	if err != nil || len(links) != 1 {
		g.t.Fatalf("links %+v, %v", links, err)
	}
	return uint32(links[0].Program)
}

// seen is a packet of a capture: as it arrived and, if it left, as it left.
type seen struct {
	fate    string
	in, out gopacket.Packet
}

// read reads the file with a library that is not ours and joins the halves. While
// it is written, its end may be missing.
func (c *capturing) read() (list []seen, err error) {
	data, err := os.ReadFile(c.file)
	if err != nil {
		return nil, err
	}
	r, err := pcapgo.NewNgReader(bytes.NewReader(data), pcapgo.NgReaderOptions{})
	if err != nil {
		return nil, err
	}
	for {
		frame, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		i, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			return list, err
		}
		switch i.Name {
		case "eth0 in":
			list = append(list, seen{fate: opts.Comments[0], in: testutil.Decode(frame)})
		case "eth0 out (l4lb)":
			last := &list[len(list)-1]
			if last.out != nil || *opts.PacketID != uint64(len(list)) || opts.Comments[0] != last.fate {
				return list, fmt.Errorf("packet %d, %q, is no second half", *opts.PacketID, opts.Comments[0])
			}
			last.out = testutil.Decode(frame)
		default:
			return list, fmt.Errorf("interface %q", i.Name)
		}
	}
}

// A capture shows a connection's packets as they arrive and as they leave with new
// link addresses, and a dropped one with the reason; nothing that its filter does
// not want. Then the gateway has its own program again.
func TestCaptureShowsWhatBecomesOfPackets(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		own := g.program()
		from := inZoneA.addr(f)
		c := g.startCapture("--filter", fmt.Sprintf("src %s and (rule web-%s or reason NO_RULE)", from, f.name))
		name := onlyKey(t, n.spread(f, inZoneA, 1))
		if _, err := n.dial("tcp", f, inNoZone, talkPort); err != nil {
			t.Error(err) // of another address: not wanted
		}
		x := n.startExchange(f, inZoneA) // another rule: not wanted
		x.finish(t, x.next(t))
		wire := n.openWire()
		closed := testutil.SYN(t, netip.AddrPortFrom(from, 40000), netip.AddrPortFrom(f.vip, 4), testutil.MACs(testutil.RouterMAC, n.gateway.MAC("eth0")))
		wire.send(closed)
		eventually(t, 10*time.Second, func() error {
			list, err := c.read()
			for _, s := range list {
				if s.fate == "DROP reason=NO_RULE" {
					return nil
				}
			}
			return fmt.Errorf("the dropped packet is not in the file: %w: %s", err, c.log)
		})
		c.end()
		if g.program() != own {
			t.Error("the gateway does not have its own program again")
		}

		list, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		backend := n.backends[name].ns.MAC("eth0")
		flows, dropped := map[string]int{}, 0
		for i, s := range list {
			if s.fate == "DROP reason=NO_RULE" {
				dropped++
				if diff := testutil.Diff(closed, s.in.Data()); diff != "" || s.out != nil {
					t.Errorf("the dropped packet (-want +got):\n%s", diff)
				}
				continue
			}
			flow := "HIT"
			if s.in.Layer(layers.LayerTypeTCP).(*layers.TCP).SYN {
				flow = "NEW"
			}
			flows[flow]++
			if want := fmt.Sprintf("TX rule=web-%s service=web backend=%s flow=%s zone=zone-a", f.name, name, flow); s.fate != want {
				t.Errorf("packet %d: %q, want %q", i, s.fate, want)
			}
			want := bytes.Clone(s.in.Data())
			copy(want, backend)
			copy(want[6:], n.gateway.MAC("eth0"))
			if diff := testutil.Diff(want, s.out.Data()); diff != "" {
				t.Errorf("packet %d as it left (-want +got):\n%s", i, diff)
			}
		}
		if flows["NEW"] != 1 || flows["HIT"] < 3 || dropped != 1 {
			t.Errorf("%v and %d dropped packets of one connection", flows, dropped)
		}

		// What arrived can be replayed, once each.
		out, err := exec.Command(executable(), "replay", "--config", g.configPath(), "--pcap", c.file, "-o", "json").CombinedOutput()
		if err != nil {
			t.Fatalf("replay: %v\n%s", err, out)
		}
		text := string(out)
		if strings.Count(text, `"index"`) != len(list) || strings.Count(text, `"HIT"`) != flows["HIT"] || strings.Count(text, `"NO_RULE"`) != 1 {
			t.Errorf("%d packets captured; replayed:\n%s", len(list), text)
		}
	})
}

// The generic mode, and the printed form.
func TestCaptureInGenericModeAsLines(t *testing.T) {
	n := newNetwork(t)
	f := families[0]
	s := fourBackends()
	s.mode = "generic"
	g := startGateway(n, s)
	c := g.startCapture("--interface", "eth0", "--filter", "dst port "+fmt.Sprint(talkPort), "--out", "", "--count", "3")
	name := onlyKey(t, n.spread(f, inZoneB, 1))
	c.wait()
	lines := strings.Split(strings.TrimSpace(c.out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("printed %q", lines)
	}
	for i, flow := range []string{"NEW", "HIT", "HIT"} {
		want := fmt.Sprintf("TX rule=web-%s service=web backend=%s flow=%s zone=zone-b", f.name, name, flow)
		if !strings.Contains(lines[i], "eth0 → eth0  10.2.128.11:") || !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %q, want %q at its end", lines[i], want)
		}
	}

	// A pipe gets each packet as it comes.
	c = g.startCapture("--filter", "verdict tx and udp", "--out", "-", "--count", "1", "--snaplen", "64")
	x := n.startExchange(f, inZoneB)
	x.finish(t, x.next(t))
	c.wait()
	r, err := pcapgo.NewNgReader(strings.NewReader(c.out.String()), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"as it arrived", "as it left"} {
		if _, ci, err := r.ReadPacketData(); err != nil || ci.CaptureLength > 64 {
			t.Errorf("%s: %d bytes, %v", what, ci.CaptureLength, err)
		}
	}
}

// Connections go on while a capture begins, ends, is killed, and while its daemon
// is; whatever happens, the gateway has its own program again.
func TestCaptureLeavesNothingHoweverItEnds(t *testing.T) {
	n := newNetwork(t)
	f := families[0]
	g := startGateway(n, fourBackends())
	own := g.program()
	download, pinned := n.startDownload(f, inNoZone)
	back := func(what string) {
		t.Helper()
		eventually(t, 10*time.Second, func() error {
			if now := g.program(); now != own {
				return fmt.Errorf("%s: the gateway has program %d, not %d", what, now, own)
			}
			return nil
		})
	}

	c := g.startCapture()
	if out, err := g.command("capture", "--out", filepath.Join(g.dir, "second")); err == nil || !strings.Contains(out, "a capture runs already") {
		t.Errorf("a second capture: %v, %s", err, out)
	}
	c.end()
	back("after its end")

	c = g.startCapture()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	back("after kill -9")

	c = g.startCapture("--filter", "port 9", "--max-rate", "1")
	g.kill()
	c.wait()
	back("after the daemon's kill -9")
	if !strings.Contains(c.log.String(), "the daemon no longer answers") {
		t.Errorf("the capture does not say why it ends: %s", c.log)
	}

	g.start()
	g.settled()
	own = g.program()
	c = g.startCapture()
	if err := errors.Join(c.cmd.Process.Signal(syscall.SIGSTOP), g.cmd.Process.Kill(), c.cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	g.wait()
	if g.program() == own {
		t.Error("somebody puts the program back after all: this test is of no use")
	}
	g.start() // takes over from the capture's program
	g.settled()
	download.finish(t, pinned)
	c = g.startCapture()
	g.signal(syscall.SIGTERM)
	g.wait()
	c.wait()
	if !strings.Contains(c.log.String(), "the daemon stops") {
		t.Errorf("the capture does not say why it ends: %s", c.log)
	}
}

// onlyKey is the one backend that answered.
func onlyKey(t *testing.T, m map[string]int) string {
	t.Helper()
	for name := range m {
		if len(m) == 1 {
			return name
		}
	}
	t.Fatalf("answered by %v, want one", m)
	return ""
}
