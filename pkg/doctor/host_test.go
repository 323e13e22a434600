package doctor

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/admin"
)

func TestKernelFinding(t *testing.T) {
	for release, want := range map[string]Status{
		"6.1.0-13-amd64": OK, "6.18.44": OK, "7.0-rc1": OK, "6.0.9": Problem, "5.15.0-91-generic": Problem, "strange": Warning,
	} {
		if f := kernelFinding(release); f.Status != want {
			t.Errorf("%s: %s: %s", release, f.Status, f.What)
		}
	}
}

func TestMissingCapabilities(t *testing.T) {
	for mask, want := range map[string]string{
		"000001ffffffffff": "",
		"000000c000003000": "",            // what the unit gives
		"0000000000203000": "",            // CAP_SYS_ADMIN stands for those of BPF
		"0000008000003000": "CAP_PERFMON", //
		"000000c000000000": "CAP_NET_ADMIN CAP_NET_RAW",
		"nonsense":         "a readable list of capabilities",
	} {
		got := strings.Join(missingCapabilities("Name:\tl4lbd\nCapEff:\t"+mask+"\nSeccomp:\t0\n"), " ")
		if got != want {
			t.Errorf("%s: %q, want %q", mask, got, want)
		}
	}
}

func TestLinkFinding(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	up := uint32(unix.IFF_UP | unix.IFF_RUNNING)
	tests := []struct {
		name string
		link *netlink.LinkAttrs
		what string
		mend string
	}{
		{"there is none", nil, "there is no such interface", "ip -br link show"},
		{"a tunnel", &netlink.LinkAttrs{EncapType: "ipip", RawFlags: up}, "not an Ethernet", "ip -br link show"},
		{"down", &netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac}, "is down", "ip link set dev eth0 up"},
		{"no carrier", &netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: unix.IFF_UP}, "no carrier", "ethtool eth0"},
		{"as it should be", &netlink.LinkAttrs{EncapType: "ether", HardwareAddr: mac, RawFlags: up}, "up", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := linkFinding("eth0", tt.link)
			if !strings.Contains(f.What, tt.what) || strings.Join(f.Mend, "; ") != tt.mend || (f.Status == OK) != (tt.mend == "") {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestDaemonFindings(t *testing.T) {
	good := admin.Status{Gateway: "gw-1", Ready: true, Interfaces: []admin.Interface{{Name: "eth0", Attached: true}}}
	tests := []struct {
		name   string
		change func(*admin.Status)
		want   string
	}{
		{"all is well", func(*admin.Status) {}, ""},
		{"another gateway", func(s *admin.Status) { s.Gateway = "gw-2" }, "gateway gw-2, and not gw-1"},
		{"a reload that was refused", func(s *admin.Status) { s.Config.LastError = "f:1:1: no" }, "refused: f:1:1: no"},
		{"detached", func(s *admin.Status) { s.Interfaces[0].Attached, s.Ready = false, false }, "the program is not on the interface"},
		{"not ready", func(s *admin.Status) { s.Ready = false }, "not ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			s.Interfaces = slices.Clone(good.Interfaces)
			tt.change(&s)
			found := daemonFindings(&s, "gw-1")
			if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, tt.want)) {
				t.Errorf("got %+v, want %q", found, tt.want)
			}
		})
	}
}

func TestListenerFinding(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), "s")
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "another process listens there",
		"203.0.113.9:9464":    "it is no address of this host",
		"127.0.0.1:0":         "",
		"unix:" + path:        "another process than l4lbd answers there",
		"unix:" + filepath.Join(t.TempDir(), "nothing"): "",
	} {
		f, bad := listenerFinding("metricsListen", address)
		if bad != (want != "") || bad && (f.What != want || len(f.Mend) == 0) {
			t.Errorf("%s: %v %+v, want %q", address, bad, f, want)
		}
	}
}
