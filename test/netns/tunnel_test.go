package netns

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A megabyte goes up through a tunnel over links of 1500 bytes: the sender's full
// segments do not fit, the gateway says what does, and path MTU discovery
// converges. The client's and the backend's kernels are real ones; l4lbd decap
// takes the packets out.
func TestPathMTUDiscoveryThroughATunnel(t *testing.T) {
	for _, kind := range []string{"IPIP", "GUE", "GENEVE"} {
		inFamilies(t, func(t *testing.T, n *network, f family) {
			n.backends["a1"].startDecap(t) // before: health checks come through the tunnel
			startGateway(n, settings{
				backends: []string{"a1"}, service: fmt.Sprintf("  l4lb: {forwarding: %s}\n", kind),
			})
			c, err := n.talk(f, inNoZone)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			line := strings.Repeat("x", 1023) + "\n" // which the backend reads and forgets
			if _, err := fmt.Fprint(c, strings.Repeat(line, 1024), "who\n"); err != nil {
				t.Fatalf("%s: send a megabyte: %v", kind, err)
			}
			if name, err := c.in.ReadString('\n'); err != nil || strings.TrimSpace(name) != "a1" {
				t.Errorf("%s: after a megabyte: %q, %v", kind, name, err)
			}
			if told := toldWhatFits(n.client, f); told == 0 || told > 200 {
				t.Errorf("%s: the client was told %d times what fits", kind, told)
			}
		})
	}
}
