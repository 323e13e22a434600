package daemon

import (
	"testing"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// Only native mode on an interface of long packets has the program loaded for
// frames in several buffers.
func TestFramesInSeveralBuffersAreExpectedByMTU(t *testing.T) {
	ns := testutil.NewNetNS(t, "gateway")
	testutil.VethEnds(t, netlab.End{NS: ns.Namespace, Name: "usual", MTU: 1500}, netlab.End{NS: ns.Namespace, Name: "page", MTU: lb.PageMTU})
	testutil.VethEnds(t, netlab.End{NS: ns.Namespace, Name: "more", MTU: lb.PageMTU + 1}, netlab.End{NS: ns.Namespace, Name: "jumbo", MTU: 9000})
	tests := []struct {
		mode       lb.XDPMode
		interfaces []string
		want       bool
	}{
		{lb.XDPNative, []string{"usual", "page", "absent"}, false},
		{lb.XDPNative, []string{"more"}, true},
		{lb.XDPNative, []string{"usual", "jumbo"}, true},
		{lb.XDPGeneric, []string{"jumbo"}, false},
	}
	for _, tt := range tests {
		ns.Do(func() error {
			if got := needsFrags(lb.Gateway{XDPMode: tt.mode, Interfaces: tt.interfaces}); got != tt.want {
				t.Errorf("%s on %v: %v, want %v", tt.mode, tt.interfaces, got, tt.want)
			}
			return nil
		})
	}
}
