package loader

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// lan is a gateway and a client on one veth pair.
type lan struct {
	gateway, client *testutil.NetNS
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{testutil.NewNetNS(t, "gateway"), testutil.NewNetNS(t, "client")}
	testutil.VethEnds(t,
		netlab.End{NS: l.gateway.Namespace, Name: "eth0", MAC: testutil.GatewayMAC},
		netlab.End{NS: l.client.Namespace, Name: "eth0", MAC: testutil.ClientMAC})
	l.client.AttachPass("eth0")
	return l
}

// attach attaches inside the gateway.
func (l *lan) attach(d *Datapath, iface string, mode lb.XDPMode) (err error) {
	l.gateway.Do(func() error { err = d.Attach(iface, mode); return nil })
	return err
}

// mode is how a program is attached to the gateway's interface, "" for none.
func (l *lan) mode() (mode lb.XDPMode) {
	l.gateway.Do(func() error { mode = attachedMode(l.gateway.Ifindex("eth0")); return nil })
	return mode
}

// answers sends an ARP request for VIP4 from the client and reports whether the
// gateway answers it as it must. Without an answer it waits for patience.
func (l *lan) answers(t *testing.T, patience time.Duration) bool {
	t.Helper()
	fd := -1
	l.client.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{
		Ifindex: l.client.Ifindex("eth0"), Protocol: swap16(unix.ETH_P_ARP),
	}))
	timeout := unix.NsecToTimeval(patience.Nanoseconds())
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	_, err := unix.Write(fd, testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4))
	must(t, err)
	got := make([]byte, 2048)
	n, err := unix.Read(fd, got)
	if errors.Is(err, unix.EAGAIN) {
		return false
	}
	must(t, err)
	want := testutil.ARPReply(t, testutil.GatewayMAC, testutil.VIP4, testutil.ClientMAC, testutil.Client4)
	if diff := testutil.Diff(want, got[:n]); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	return true
}

const patience, impatience = 5 * time.Second, 50 * time.Millisecond

// The program handles the traffic of an interface in the mode that was asked
// for, until it is detached.
func TestAttachedProgramHandlesTraffic(t *testing.T) {
	for _, mode := range []lb.XDPMode{lb.XDPNative, lb.XDPGeneric} {
		t.Run(string(mode), func(t *testing.T) {
			l := newLAN(t)
			d := newFixture(t)
			must(t, l.attach(d, "eth0", mode))
			if got := l.mode(); got != mode {
				t.Errorf("attached in mode %q", got)
			}
			if !l.answers(t, patience) {
				t.Error("ARP for a VIP was not answered")
			}
			must(t, d.Detach())
			if got := l.mode(); got != "" || l.answers(t, impatience) {
				t.Errorf("still attached in mode %q", got)
			}
		})
	}
}

// Closing lets go of interfaces whose link is not pinned.
func TestCloseDetachesWhatIsNotPinned(t *testing.T) {
	l := newLAN(t)
	d, err := Load(Options{FlowEntries: 16, Virtual: true})
	must(t, err)
	must(t, l.attach(d, "eth0", lb.XDPNative))
	must(t, d.Close())
	if got := l.mode(); got != "" {
		t.Errorf("still attached in mode %q", got)
	}
}

// Refresh makes a new hardware address of the interface ours.
func TestRefreshFollowsTheLinkAddress(t *testing.T) {
	l := newLAN(t)
	d := newFixture(t)
	must(t, l.attach(d, "eth0", lb.XDPNative))
	index := uint32(l.gateway.Ifindex("eth0"))
	if got := d.ports[index].Mac; got != [6]byte(testutil.GatewayMAC) {
		t.Errorf("port has %x", got)
	}
	l.gateway.SetMAC("eth0", testutil.RouterMAC)
	l.gateway.Do(func() error { return d.Refresh("eth0") })
	if got := d.ports[index].Mac; got != [6]byte(testutil.RouterMAC) {
		t.Errorf("port has %x after the change", got)
	}
	var err error
	l.gateway.Do(func() error { err = d.Refresh("eth9"); return nil })
	if err == nil {
		t.Error("an interface that is not there was refreshed")
	}
}

// An interface with another program is refused, and that program is named.
func TestInterfaceWithAnotherProgramIsBusy(t *testing.T) {
	for name, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			d := newFixture(t)
			other := attachOther(t, l, "other_xdp", flags)
			for _, mode := range []lb.XDPMode{lb.XDPNative, lb.XDPGeneric} {
				err := l.attach(d, "eth0", mode)
				if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "(other_xdp)") || !strings.Contains(err.Error(), "eth0") {
					t.Errorf("attach in mode %s: %v", mode, err)
				}
			}
			must(t, other.Close())
			must(t, l.attach(d, "eth0", lb.XDPNative))
		})
	}
}

func attachOther(t *testing.T, l *lan, name string, flags link.XDPAttachFlags) (other link.Link) {
	t.Helper()
	prog, err := ebpf.NewProgram(passProgram(name))
	must(t, err)
	defer prog.Close()
	l.gateway.Do(func() (err error) {
		other, err = link.AttachXDP(link.XDPOptions{
			Program: prog, Interface: l.gateway.Ifindex("eth0"), Flags: flags,
		})
		return err
	})
	t.Cleanup(func() { other.Close() })
	return other
}

// Native mode is native or an error that says what to do; nothing is attached
// then, and generic mode can be asked for.
func TestNativeModeNeverFallsBack(t *testing.T) {
	l := newLAN(t)
	l.gateway.Bridge("br0")
	d := newFixture(t)
	err := l.attach(d, "br0", lb.XDPNative)
	if err == nil || errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "xdpMode: generic") {
		t.Errorf("attach to a bridge: %v", err)
	}
	var mode lb.XDPMode
	index := l.gateway.Ifindex("br0")
	l.gateway.Do(func() error { mode = attachedMode(index); return nil })
	if mode != "" || len(d.links) != 0 {
		t.Errorf("attached in mode %q, %d links", mode, len(d.links))
	}
	must(t, l.attach(d, "br0", lb.XDPGeneric))
}

func TestInterfacesThatCannotCarryVIPsAreRefused(t *testing.T) {
	l := newLAN(t)
	d := newFixture(t)
	for iface, want := range map[string]string{"lo": "not an Ethernet interface", "eth9": "eth9"} {
		if err := l.attach(d, iface, lb.XDPGeneric); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("attach to %s: %v", iface, err)
		}
	}
}
