package daemon

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"

	"l4lb/pkg/lb"
)

// fakeAttacher notes what it is told.
type fakeAttacher struct {
	calls []string
	err   error
}

func (f *fakeAttacher) Attach(iface string, mode lb.XDPMode) error {
	f.calls = append(f.calls, "attach "+iface+" "+string(mode))
	return f.err
}

func (f *fakeAttacher) Refresh(iface string) error {
	f.calls = append(f.calls, "refresh "+iface)
	return f.err
}

func TestPortsFollowTheirInterfaces(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	f := &fakeAttacher{}
	p := newPorts(f, lb.Gateway{Interfaces: []string{"lo"}, XDPMode: lb.XDPGeneric}, slog.New(slog.DiscardHandler))
	step := func(name string, attached bool, want ...string) {
		t.Helper()
		if !slices.Equal(f.calls, want) {
			t.Errorf("%s: calls %q, want %q", name, f.calls, want)
		}
		if p.allAttached() != attached {
			t.Errorf("%s: attached = %v", name, !attached)
		}
		f.calls = nil
	}
	p.update("lo", lo.Index, mac, false)
	step("before the first attach nothing is done", false)
	if err := p.attachAll(); err != nil {
		t.Fatal(err)
	}
	step("at the start", true, "attach lo generic")
	p.update("lo", lo.Index, lo.HardwareAddr, false)
	p.update("eth9", 99, mac, false)
	step("news without anything new, and of others", true)
	p.update("lo", lo.Index, mac, false)
	step("a new link address", true, "refresh lo")
	p.update("lo", lo.Index, mac, false)
	step("the same again", true)
	p.update("lo", lo.Index, mac, true)
	step("the interface is gone", false)
	f.err = errors.New("no native XDP")
	p.update("lo", 77, mac, false)
	step("it is back and cannot be attached", false, "attach lo generic")
	f.err = nil
	p.update("lo", 77, mac, false)
	step("it is back", true, "attach lo generic")
}

func TestAttachStopsAtTheFirstError(t *testing.T) {
	f := &fakeAttacher{err: errors.New("no native XDP")}
	p := newPorts(f, lb.Gateway{Interfaces: []string{"lo", "lo2"}}, slog.New(slog.DiscardHandler))
	if err := p.attachAll(); !errors.Is(err, f.err) || len(f.calls) != 1 {
		t.Errorf("error %v after %q", err, f.calls)
	}
}
