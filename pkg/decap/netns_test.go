package decap

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// A client talks TCP and UDP with a backend's VIP through each kind of tunnel;
// what it gets back comes from the VIP itself, not through the tunnel.
func TestServicesAnswerThroughTunnels(t *testing.T) {
	l := newLab(t)
	d := l.start(t, Options{VIPs: []netip.Prefix{whole(testutil.VIP4), whole(testutil.VIP6)}})
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		defer l.tunnel(t, w, outer6)()
		before, err := d.Counts()
		if err != nil {
			t.Fatal(err)
		}
		l.wantTCP(t, inner6)
		l.wantUDP(t, inner6)
		if after, err := d.Counts(); err != nil || after[w.counted] == before[w.counted] {
			t.Errorf("nothing counted as %s: %v, %v", w.counted, after, err)
		}
	})
}

// wantTCP sends 64 KiB and wants them back.
func (l *lab) wantTCP(t *testing.T, ipv6 bool) {
	t.Helper()
	conn, err := l.dial(t.Context(), ipv6)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// Segments of the client have room for the outer headers.
	sent, got := bytes.Repeat([]byte("l4lb tunnels"), 64<<10/12), make([]byte, 64<<10/12*12)
	for chunk := range slices.Chunk(sent, 1000) {
		if _, err := conn.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, got[:len(chunk)]); err != nil || !bytes.Equal(chunk, got[:len(chunk)]) {
			t.Fatalf("read: %v", err)
		}
	}
}

func (l *lab) wantUDP(t *testing.T, ipv6 bool) {
	t.Helper()
	conn := l.client.Dial("udp", netip.AddrPortFrom(vipOf(ipv6), 53).String())
	defer conn.Close()
	buf := make([]byte, 100)
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "question" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestGenericModeOnDemand(t *testing.T) {
	l := newLab(t)
	l.start(t, Options{Mode: lb.XDPGeneric})
	if got := l.attached(); got != lb.XDPGeneric {
		t.Errorf("attached %q, want generic", got)
	}
	for _, w := range wraps[:2] {
		stop := l.tunnel(t, w, true)
		l.wantTCP(t, false)
		l.wantUDP(t, true)
		stop()
	}
}

// Tunnels end at the addresses that the interface has, or at those that are
// named.
func TestAddressesAreFollowed(t *testing.T) {
	l := newLab(t)
	d := l.start(t, Options{})
	has := func(a string) bool {
		list, err := ranges(d.objs.L4lbEnds)
		return err == nil && slices.Contains(list, whole(netip.MustParseAddr(a)))
	}
	within(t, "its addresses", func() bool { return has("10.0.9.11") && has("2001:db8:9::11") && !has("192.0.2.10") })
	l.backend.AddAddr("eth0", "10.0.9.12/16")
	within(t, "a new address", func() bool { return has("10.0.9.12") && has("10.0.9.11") })
	l.backend.DelAddr("eth0", "10.0.9.12/16")
	within(t, "an address that is gone", func() bool { return !has("10.0.9.12") && has("10.0.9.11") })
}

func TestNamedAddressesStay(t *testing.T) {
	l := newLab(t)
	d := l.start(t, Options{Addresses: []netip.Addr{testutil.VIP4B}})
	list, err := ranges(d.objs.L4lbEnds)
	if err != nil || !slices.Equal(list, []netip.Prefix{whole(testutil.VIP4B)}) {
		t.Errorf("tunnels end at %v, %v", list, err)
	}
}

func TestInspectShowsWhatRuns(t *testing.T) {
	l := newLab(t)
	inspect := func() (s Status, err error) {
		err = l.backend.Namespace.Do(func() error {
			s, err = Inspect("eth0")
			return err
		})
		return s, err
	}
	if _, err := inspect(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("without a program: %v", err)
	}
	gateways := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), whole(gateway6)}
	l.start(t, Options{Gateways: gateways, VIPs: []netip.Prefix{whole(testutil.VIP4)}})
	defer l.tunnel(t, wraps[0], false)()
	l.wantUDP(t, false)
	s, err := inspect()
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode != lb.XDPNative || !slices.Equal(s.Gateways, gateways) || len(s.VIPs) != 1 ||
		!slices.Contains(s.Addresses, whole(backend4)) || s.Counts.Unwrapped() != 1 || s.Counts["ip"] != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestAnotherProgramIsLeftAlone(t *testing.T) {
	l := newLab(t)
	l.backend.AttachPass("eth0")
	o := Options{Interface: "eth0", Gateways: []netip.Prefix{whole(gateway4)}}
	err := l.backend.Namespace.Do(func() error {
		d, err := Open(o)
		if err == nil {
			err = errors.Join(errors.New("attached"), d.Close())
		}
		_, inspectErr := Inspect("eth0")
		if !errors.Is(inspectErr, ErrNotAttached) {
			t.Errorf("Inspect: %v", inspectErr)
		}
		return err
	})
	if want := "another XDP program"; err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// The program goes with Close, and the process ends when the interface does.
func TestTheEnd(t *testing.T) {
	l := newLab(t)
	var d *Decap
	o := Options{Interface: "eth0", Gateways: []netip.Prefix{whole(gateway4)}}
	open := func() {
		l.backend.Do(func() (err error) {
			d, err = Open(o)
			return err
		})
	}
	open()
	if err := d.Close(); err != nil || l.attached() != "" {
		t.Errorf("after Close: %v, %q is attached", err, l.attached())
	}
	open()
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	if err := l.backend.DelLink("eth0"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, ErrInterfaceGone) {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not notice that the interface is gone")
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close without the interface: %v", err)
	}
}

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
	}
}
