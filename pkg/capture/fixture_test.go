package capture

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// The fixture's ids.
const (
	memberA, memberB      = 1, 2
	ruleWeb, ruleDNS      = 1, 2
	zoneA, serviceWeb     = 1, 1
	idle                  = 600 * time.Second
	bpffs                 = "/sys/fs/bpf"
	deadline              = 30 * time.Second
	gatewayName, ifaceDev = "gw", "lo"
)

// gateway is a data plane that is pinned and attached as a daemon's is, but that
// packets are given to one by one: they come in at a loopback interface.
type gateway struct {
	tb testing.TB
	ns *testutil.NetNS
	*loader.Datapath
	dir string
}

// newGateway has VIP4 and VIP6 with a rule for TCP port 80 and one for all of UDP;
// clients of zone a are given backend a, others b.
func newGateway(tb testing.TB) *gateway {
	tb.Helper()
	testutil.RequireRoot(tb)
	var fs unix.Statfs_t
	must(tb, unix.Statfs(bpffs, &fs))
	if fs.Type != unix.BPF_FS_MAGIC {
		must(tb, unix.Mount("bpf", bpffs, "bpf", 0, ""))
		tb.Cleanup(func() { must(tb, unix.Unmount(bpffs, 0)) })
	}
	root, err := os.MkdirTemp(bpffs, "l4lb-capture-test-")
	must(tb, err)
	g := &gateway{tb: tb, ns: testutil.NewNetNS(tb, "gateway"), dir: root + "/" + gatewayName}
	tb.Cleanup(func() { must(tb, errors.Join(loader.Discard(g.dir), os.Remove(root))) })
	g.load()
	return g
}

// load loads a program on the pinned maps, as a daemon that starts does, and puts
// it in the place of the one before.
func (g *gateway) load() {
	tb := g.tb
	tb.Helper()
	d, err := loader.Load(loader.Options{
		PinDir: g.dir, Virtual: true, FlowEntries: 4096, Members: 64, Rules: 64, Services: 16, Frontends: 64, ZoneNodes: 64,
	})
	must(tb, err)
	tb.Cleanup(func() { must(tb, d.Close()) })
	g.Datapath = d
	must(tb, d.SetClock(time.Hour))
	for id, name := range map[uint32]string{memberA: "web/a1/10.1.0.11", memberB: "web/b1/10.2.0.11"} {
		must(tb, d.SetName(loader.NameMember, id, name))
	}
	must(tb, d.SetName(loader.NameRule, ruleWeb, "web-tcp"))
	must(tb, d.SetName(loader.NameRule, ruleDNS, "web-udp"))
	must(tb, d.SetName(loader.NameZone, zoneA, "zone-a"))
	for id, mac := range map[uint32][]byte{memberA: testutil.BackendAMAC, memberB: testutil.BackendBMAC} {
		must(tb, d.SetMember(id, loader.Member{
			DMAC: [6]byte(mac), SMAC: [6]byte(testutil.GatewayMAC), IfIndex: loader.TestIfIndex,
			Generation: [loader.ClassMax]uint16{1, 1}, StatBase: 8 * (id - 1), Service: serviceWeb,
		}))
	}
	for id := uint32(ruleWeb); id <= ruleDNS; id++ {
		must(tb, d.SetRule(id, loader.Rule{
			Service: serviceWeb, Epoch: 1, ServiceEpoch: 1, StatSlot: uint16(id), IdleTicks: uint32(idle / time.Millisecond),
		}))
	}
	must(tb, d.SetZones([]loader.ZonePrefix{
		{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Zone: zoneA},
		{Prefix: netip.MustParsePrefix("2001:db8:a::/48"), Zone: zoneA},
	}))
	for zone, member := range map[uint32]uint32{0: memberB, zoneA: memberA} {
		table, err := d.NewTable(slices.Repeat([]uint32{member}, loader.TableSize))
		must(tb, err)
		must(tb, d.SetPick(serviceWeb, zone, table))
	}
	web := []loader.FrontendPort{{Protocol: 6, Port: 80, Rule: ruleWeb}}
	must(tb, d.SetFrontends([]loader.Frontend{
		{Address: netip.PrefixFrom(testutil.VIP4, 32), UDP: ruleDNS, Ports: web},
		{Address: netip.PrefixFrom(testutil.VIP6, 128), UDP: ruleDNS, Ports: web},
	}))
	g.attach()
	must(tb, d.SetPort(loader.TestIfIndex, [6]byte(testutil.GatewayMAC)))
}

// attach pins a link as loader.Attach does; it would refuse a loopback interface,
// the one that test runs come in at.
func (g *gateway) attach() {
	g.tb.Helper()
	g.ns.Do(func() error {
		pin := g.dir + "/link-" + ifaceDev
		if old, err := link.LoadPinnedLink(pin, nil); err == nil {
			return errors.Join(old.Update(g.Program()), old.Close())
		}
		l, err := link.AttachXDP(link.XDPOptions{
			Program: g.Program(), Interface: loader.TestIfIndex, Flags: link.XDPGenericMode,
		})
		if err != nil {
			return err
		}
		return errors.Join(l.Pin(pin), l.Close())
	})
}

// recorder is a sink that keeps what it is given.
type recorder struct {
	packets  []Packet
	summary  *Summary
	started  chan []string
	finished bool
}

func (r *recorder) Start(interfaces []string) error { r.started <- interfaces; return nil }
func (r *recorder) Flush() error                    { return nil }
func (r *recorder) Finish(s *Summary) error         { r.summary, r.finished = s, true; return nil }

func (r *recorder) Packet(p *Packet) error {
	kept := *p
	kept.In.Data, kept.Out.Data = bytes.Clone(p.In.Data), bytes.Clone(p.Out.Data)
	r.packets = append(r.packets, kept)
	return nil
}

// capture runs f while packets are captured, and returns them.
func (g *gateway) capture(o Options, f func()) *recorder {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), deadline)
	defer cancel()
	r := &recorder{started: make(chan []string, 1)}
	o.Sink = r
	o = g.options(o)
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o)
		ended <- err
	}()
	awaitStart(g.tb, r.started, ended)
	f()
	cancel()
	must(g.tb, <-ended)
	return r
}

// awaitStart waits until a capture begins, and fails the test where it ends first.
func awaitStart[T any](tb testing.TB, started <-chan T, ended <-chan error) {
	tb.Helper()
	select {
	case <-started:
	case err := <-ended:
		tb.Fatalf("capture: %+v", err)
	}
}

func (g *gateway) options(o Options) Options {
	o.Dir, o.Object, o.Lend = g.dir, loader.ObjectID(), g.lend
	return o
}

// forgetFlows makes entries of before invalid.
func (g *gateway) forgetFlows() {
	g.tb.Helper()
	for id := uint32(ruleWeb); id <= ruleDNS; id++ {
		r := g.Rule(id)
		r.Epoch++
		must(g.tb, g.SetRule(id, r))
	}
}

// lend is the part of the daemon. The link is not one of Attach's.
func (g *gateway) lend(ctx context.Context, program uint32, started func()) error {
	restore, err := g.Lend(program)
	if err != nil {
		return err
	}
	capturing := g.open(program)
	defer capturing.Close()
	if err := loader.ReplacePinned(g.dir, g.Program(), capturing); err != nil {
		return err
	}
	started()
	<-ctx.Done()
	return errors.Join(loader.ReplacePinned(g.dir, capturing, g.Program()), restore())
}

func (g *gateway) open(id uint32) *ebpf.Program {
	g.tb.Helper()
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	must(g.tb, err)
	return program
}

// runs reports whether the interface has a program.
func (g *gateway) runs(program *ebpf.Program) bool {
	g.tb.Helper()
	info, err := program.Info()
	must(g.tb, err)
	id, _ := info.ID()
	links, err := loader.PinnedLinks(g.dir)
	must(g.tb, err)
	return links[0].Program == id
}

// running is the program on the interface.
func (g *gateway) running() *ebpf.Program {
	g.tb.Helper()
	links, err := loader.PinnedLinks(g.dir)
	must(g.tb, err)
	return g.open(uint32(links[0].Program))
}

// send gives the program on the interface frames.
func (g *gateway) send(frames ...[]byte) {
	g.tb.Helper()
	program := g.running()
	defer program.Close()
	for _, frame := range frames {
		_, err := program.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)})
		must(g.tb, err)
	}
}

func filter(tb testing.TB, text string) *Filter {
	tb.Helper()
	f, err := ParseFilter(text)
	must(tb, err)
	return f
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%+v", err)
	}
}
