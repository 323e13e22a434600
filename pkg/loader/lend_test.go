package loader

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"l4lb/pkg/lb"
)

// standIn loads a program that passes everything and uses maps of the data plane,
// as a capture's does.
func standIn(t *testing.T, maps ...*ebpf.Map) (*ebpf.Program, uint32) {
	t.Helper()
	var insns asm.Instructions
	for _, m := range maps {
		insns = append(insns, asm.LoadMapPtr(asm.R1, m.FD()))
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, int32(VerdictPass)), asm.Return())
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "stand_in", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "GPL", Instructions: insns})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p, programID(t, p)
}

func programID(t *testing.T, p *ebpf.Program) uint32 {
	t.Helper()
	info, err := p.Info()
	must(t, err)
	id, _ := info.ID()
	return uint32(id)
}

func (d *Datapath) lentMaps() []*ebpf.Map {
	return []*ebpf.Map{d.objs.L4lbFlows4, d.objs.L4lbFlows6, d.objs.L4lbMembers, d.objs.L4lbRules, d.objs.L4lbFronts}
}

// While the data plane is lent, its links have the other program, those that are
// made meanwhile too; afterwards its own.
func TestLentDataPlaneComesBack(t *testing.T) {
	dir := pinDir(t)
	d := newFixtureWith(t, Options{PinDir: dir})
	lan := newLAN(t)
	must(t, lan.attach(d, "eth0", lb.XDPNative))
	runs := func() uint32 {
		links, err := PinnedLinks(dir)
		must(t, err)
		if len(links) != 1 || links[0].Interface != "eth0" || links[0].IfIndex != uint32(lan.gateway.Ifindex("eth0")) {
			t.Fatalf("links %+v", links)
		}
		return uint32(links[0].Program)
	}
	own := programID(t, d.Program())
	other, id := standIn(t, d.lentMaps()...)

	restore, err := d.Lend(id)
	must(t, err)
	if got := runs(); got != id {
		t.Errorf("lent, it runs program %d, want %d", got, id)
	}
	if _, err := d.Lend(id); !errors.Is(err, ErrLent) {
		t.Errorf("lent a second time: %v", err)
	}
	must(t, lan.attach(d, "eth0", lb.XDPNative)) // as when an interface comes back
	if got := runs(); got != id {
		t.Errorf("attached anew, it runs program %d, want %d", got, id)
	}
	must(t, restore())
	if got := runs(); got != own {
		t.Errorf("given back, it runs program %d, want %d", got, own)
	}

	// ReplacePinned does the same from another process, and leaves what it does
	// not know.
	must(t, ReplacePinned(dir, d.Program(), other))
	must(t, ReplacePinned(dir, d.Program(), other))
	if got := runs(); got != id {
		t.Errorf("replaced, it runs program %d, want %d", got, id)
	}
	must(t, ReplacePinned(dir, other, d.Program()))
	if got := runs(); got != own {
		t.Errorf("replaced back, it runs program %d, want %d", got, own)
	}
}

// Only a program that works on this data plane's maps may stand in for it.
func TestDataPlaneIsLentToItsOwnKindOnly(t *testing.T) {
	d, other := newFixture(t), newFixture(t)
	_, foreign := standIn(t, other.lentMaps()...)
	_, part := standIn(t, d.lentMaps()[:3]...)
	for id, want := range map[uint32]string{
		foreign: "does not use this gateway's l4lb_flows4",
		part:    "does not use this gateway's l4lb_rules",
		1 << 30: "open program",
	} {
		if _, err := d.Lend(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("program %d: %v, want %q", id, err, want)
		}
	}
}

// What another process finds of a running program is what it was loaded with.
func TestRunningProgramShowsItsMapsAndConstants(t *testing.T) {
	dir := pinDir(t)
	d := newFixtureWith(t, Options{PinDir: dir, FlowSeed: 0x1122334455667788})
	must(t, d.SetName(NameRule, 7, "web"))
	r, err := OpenRunning(dir, ebpf.ProgramID(programID(t, d.Program())), ObjectID())
	must(t, err)
	defer func() { must(t, r.Close()) }()
	if got := string(r.Constants[lbVarCfgFlowSeed]); got != "\x88\x77\x66\x55\x44\x33\x22\x11" {
		t.Errorf("the flow seed is %x", got)
	}
	for _, name := range []string{lbMapL4lbFlows4, lbMapL4lbFronts, lbMapL4lbTables, ".bss"} {
		if r.Maps[name] == nil {
			t.Errorf("map %s is missing: %v", name, r.Maps)
		}
	}
	name, err := r.Name(NameRule, 7)
	none, err2 := r.Name(NameRule, 8)
	names, err3 := r.Names(NameRule)
	if err := errors.Join(err, err2, err3); err != nil || name != "web" || none != "" || len(names) != 1 || names[7] != "web" {
		t.Errorf("names %q, %q, %v, error %v", name, none, names, err)
	}
	if _, err := OpenRunning(dir, 1, "another build"); !errors.Is(err, ErrVersion) {
		t.Errorf("another build: %v", err)
	}
}
