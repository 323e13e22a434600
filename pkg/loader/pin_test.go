package loader

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

const bpffs = "/sys/fs/bpf"

// pinDir is a directory of its own on a BPF file system, which is mounted where
// it is not yet.
func pinDir(t *testing.T) string {
	t.Helper()
	testutil.RequireRoot(t)
	var fs unix.Statfs_t
	must(t, unix.Statfs(bpffs, &fs))
	if fs.Type != unix.BPF_FS_MAGIC {
		must(t, unix.Mount("bpf", bpffs, "bpf", 0, ""))
		t.Cleanup(func() { must(t, unix.Unmount(bpffs, 0)) })
	}
	dir, err := os.MkdirTemp(bpffs, "l4lb-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "state")
}

// passProgram passes every frame.
func passProgram(name string) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(VerdictPass)), asm.Return()},
	}
}

// writeAnew is what each daemon writes: everything that is not pinned.
func writeAnew(t *testing.T, d *Datapath) {
	t.Helper()
	must(t, d.SetClock(fixtureStart))
	must(t, d.SetPort(TestIfIndex, [6]byte(testutil.GatewayMAC)))
	must(t, d.SetZones(fixtureZones()))
	for _, members := range fixtureTables {
		newTable(t, d, members...)
	}
	newFlowsGoTo(t, d, memberB)
	must(t, d.SetFrontends(fixtureFrontends()))
}

// A new daemon takes over what the old one left: flows, the secret of their
// table, records, names and counters.
func TestNextDaemonAdoptsTheState(t *testing.T) {
	dir := pinDir(t)
	one := newFixtureWith(t, Options{PinDir: dir})
	must(t, one.SetName(NameRule, ruleTCP80, "web-vip"))
	flows := []frame{
		tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)),
		tcp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.VIP6, 80)),
	}
	for _, f := range flows {
		send(t, one, f, started(memberA, ruleTCP80, zoneA, newOther))
		send(t, one, f, followed(memberA, ruleTCP80, zoneA, confirmed))
	}
	counted := readCounters(t, one)
	must(t, one.Close())

	two := load(t, Options{PinDir: dir})
	if got := readCounters(t, two); len(got.since(counted)) != 0 || len(counted.since(got)) != 0 {
		t.Errorf("counters are %v, were %v", got, counted)
	}
	if names, err := two.Names(NameRule); err != nil || names[ruleTCP80] != "web-vip" {
		t.Errorf("names %v, %v", names, err)
	}
	writeAnew(t, two)
	for _, f := range flows {
		send(t, two, f, followed(memberA, ruleTCP80, zoneA))
	}
	other := tcp(t, ap(testutil.ZoneAClient4, 4001), ap(testutil.VIP4, 80))
	send(t, two, other, started(memberB, ruleTCP80, zoneA, newOther))
}

// Both daemons work on the same tables while the one takes over from the other.
func TestDaemonsShareTheTablesDuringATakeover(t *testing.T) {
	dir := pinDir(t)
	one := newFixtureWith(t, Options{PinDir: dir})
	two := load(t, Options{PinDir: dir})
	writeAnew(t, two)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	send(t, one, f, started(memberA, ruleUDPAll, zoneA, newOther))
	send(t, two, f, followed(memberA, ruleUDPAll, zoneA, confirmed))
	send(t, one, f, followed(memberA, ruleUDPAll, zoneA))
}

// Without a pin directory nothing is shared and nothing stays.
func TestUnpinnedDaemonsShareNothing(t *testing.T) {
	one, two := newFixture(t), newFixture(t)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	send(t, one, f, started(memberA, ruleUDPAll, zoneA, newOther))
	send(t, two, f, started(memberA, ruleUDPAll, zoneA, newOther))
}

// Maps of another size are refused and left as they are.
func TestStateOfAnotherLayoutIsRefused(t *testing.T) {
	dir := pinDir(t)
	one := newFixtureWith(t, Options{PinDir: dir})
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	send(t, one, f, started(memberA, ruleUDPAll, zoneA, newOther))
	for name, o := range map[string]Options{
		"flows":   {FlowEntries: 1 << 16, Members: 64, Rules: 64, Services: 16, PinDir: dir},
		"members": {FlowEntries: 4096, Members: 128, Rules: 64, Services: 16, PinDir: dir},
		"rules":   {FlowEntries: 4096, Members: 64, Rules: 65, Services: 16, PinDir: dir},
	} {
		o.Virtual = true
		d, err := Load(o)
		if !errors.Is(err, ErrLayout) {
			t.Errorf("another number of %s: %v, want ErrLayout", name, err)
		}
		if err == nil {
			must(t, d.Close())
		}
	}
	send(t, one, f, followed(memberA, ruleUDPAll, zoneA, confirmed))
	// Discarding is the way out.
	must(t, one.Close())
	must(t, Discard(dir))
	two, err := Load(Options{FlowEntries: 1 << 16, Virtual: true, PinDir: dir})
	must(t, err)
	must(t, two.Close())
}

// Fields may change their meaning while sizes stay.
func TestStateOfAnotherMeaningIsRefused(t *testing.T) {
	dir := pinDir(t)
	d := load(t, Options{PinDir: dir})
	must(t, d.SetName(nameKindSeed, layoutID, "0"))
	must(t, d.Close())
	o := Options{FlowEntries: 4096, Members: 64, Rules: 64, Services: 16, Virtual: true, PinDir: dir}
	if d, err := Load(o); !errors.Is(err, ErrLayout) {
		if err == nil {
			d.Close()
		}
		t.Errorf("load over another layout: %v, want %v", err, ErrLayout)
	}
}

// A directory that is not on a BPF file system cannot hold state.
func TestPinDirectoryElsewhereIsRefused(t *testing.T) {
	testutil.RequireRoot(t)
	d, err := Load(Options{FlowEntries: 16, Virtual: true, PinDir: t.TempDir()})
	if err == nil {
		d.Close()
		t.Error("state was pinned outside a BPF file system")
	}
}

// A state directory without its names has lost the secret of its flows.
func TestStateWithABrokenSecretIsRefused(t *testing.T) {
	dir := pinDir(t)
	one := load(t, Options{PinDir: dir})
	must(t, one.DeleteName(nameKindSeed, 0))
	if _, err := Load(Options{FlowEntries: 4096, Members: 64, Rules: 64, Services: 16, Virtual: true, PinDir: dir}); err == nil {
		t.Error("adopted flows without their secret")
	}
}

// pinned names the link that is pinned for the gateway's interface.
func pinnedLink(t *testing.T, dir string) (link.ID, ebpf.ProgramID) {
	t.Helper()
	l, err := link.LoadPinnedLink(filepath.Join(dir, "link-eth0"), nil)
	must(t, err)
	defer l.Close()
	info, err := l.Info()
	must(t, err)
	return info.ID, info.Program
}

// A new daemon's program takes the place of the old one on the same link: the
// interface is never without.
func TestNextDaemonReplacesTheProgramWithoutDetaching(t *testing.T) {
	dir := pinDir(t)
	l := newLAN(t)
	one := newFixtureWith(t, Options{PinDir: dir})
	must(t, l.attach(one, "eth0", lb.XDPNative))
	firstLink, firstProgram := pinnedLink(t, dir)
	must(t, one.Close()) // as kill -9 would
	if !l.answers(t, patience) {
		t.Error("the pinned program does not go on")
	}
	two := load(t, Options{PinDir: dir})
	writeAnew(t, two)
	must(t, l.attach(two, "eth0", lb.XDPNative))
	secondLink, secondProgram := pinnedLink(t, dir)
	if secondLink != firstLink || secondProgram == firstProgram {
		t.Errorf("link %d with program %d, then %d with %d", firstLink, firstProgram, secondLink, secondProgram)
	}
	if !l.answers(t, patience) {
		t.Error("the new program does not handle traffic")
	}
	must(t, two.Detach())
	if got := l.mode(); got != "" {
		t.Errorf("attached in mode %q after Detach", got)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state is left after Detach: %v", err)
	}
}

// A link of another mode, or of an interface that is gone, is replaced.
func TestStaleLinksAreReplaced(t *testing.T) {
	dir := pinDir(t)
	l := newLAN(t)
	one := load(t, Options{PinDir: dir})
	must(t, l.attach(one, "eth0", lb.XDPGeneric))
	must(t, one.Close())
	two := load(t, Options{PinDir: dir})
	must(t, l.attach(two, "eth0", lb.XDPNative))
	if got := l.mode(); got != lb.XDPNative {
		t.Errorf("attached in mode %q", got)
	}
	must(t, two.Close())
	must(t, l.gateway.DelLink("eth0"))
	again := newLAN(t)
	three := load(t, Options{PinDir: dir})
	must(t, again.attach(three, "eth0", lb.XDPNative))
	if got := again.mode(); got != lb.XDPNative {
		t.Errorf("attached in mode %q", got)
	}
}

// Interfaces that left the configuration are let go.
func TestDetachOthersLetsGoOfOtherInterfaces(t *testing.T) {
	dir := pinDir(t)
	l := newLAN(t)
	testutil.Veth(t, l.gateway, "eth1", l.client, "eth1")
	one := load(t, Options{PinDir: dir})
	must(t, l.attach(one, "eth0", lb.XDPNative))
	must(t, l.attach(one, "eth1", lb.XDPNative))
	must(t, one.Close())
	two := load(t, Options{PinDir: dir})
	must(t, l.attach(two, "eth1", lb.XDPNative))
	must(t, two.DetachOthers())
	if got := l.mode(); got != "" {
		t.Errorf("eth0 is still attached in mode %q", got)
	}
	var mode lb.XDPMode
	index := l.gateway.Ifindex("eth1")
	l.gateway.Do(func() error { mode = attachedMode(index); return nil })
	if mode != lb.XDPNative {
		t.Errorf("eth1 is attached in mode %q", mode)
	}
	pins, err := filepath.Glob(filepath.Join(dir, "link-*"))
	if err != nil || len(pins) != 1 {
		t.Errorf("pins %v, %v", pins, err)
	}
}

// Discarding detaches at once, so that the next daemon finds the interface free.
func TestDiscardDetachesAtOnce(t *testing.T) {
	dir := pinDir(t)
	l := newLAN(t)
	one := load(t, Options{PinDir: dir})
	must(t, l.attach(one, "eth0", lb.XDPNative))
	must(t, one.Close())
	must(t, Discard(dir))
	if got := l.mode(); got != "" {
		t.Errorf("still attached in mode %q", got)
	}
	two := load(t, Options{PinDir: dir, FlowEntries: 1 << 10})
	must(t, l.attach(two, "eth0", lb.XDPGeneric))
	must(t, Discard(dir))
	must(t, Discard(dir))
}
