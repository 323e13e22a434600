package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/admin"
)

func (g *gateway) status() (admin.Status, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), dialTimeout)
	defer cancel()
	return g.client.Status(ctx)
}

func mustStatus(t *testing.T, g *gateway) admin.Status {
	t.Helper()
	s, err := g.status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// backends are the members of the service web, by instance and address.
func (g *gateway) backends() (map[string]admin.Backend, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), dialTimeout)
	defer cancel()
	list, err := g.client.Backends(ctx, "web")
	out := map[string]admin.Backend{}
	for _, b := range list.Backends {
		out[b.Instance+" "+b.Address] = b
	}
	return out, err
}

// awaitState waits until backends are in a state, in both families.
func (g *gateway) awaitState(state string, names ...string) {
	g.t.Helper()
	eventually(g.t, 10*time.Second, func() error {
		all, err := g.backends()
		if err != nil {
			return err
		}
		for _, name := range names {
			for _, f := range families {
				if b := all[name+" "+g.net.backends[name].addr(f)]; b.State != state {
					return fmt.Errorf("%s is %q over %s, want %s", name, b.State, f.name, state)
				}
			}
		}
		return nil
	})
}

// settled waits until all backends of the configuration are healthy.
func (g *gateway) settled() {
	g.t.Helper()
	eventually(g.t, 10*time.Second, func() error {
		all, err := g.backends()
		for _, b := range all {
			if b.State != "HEALTHY" || !b.Link.Usable {
				err = fmt.Errorf("%s %s is %s, link %+v", b.Instance, b.Address, b.State, b.Link)
			}
		}
		if err == nil && len(all) == 0 {
			err = errors.New("no backends")
		}
		return err
	})
}

// metric reads a counter from the daemon's metrics; 0 where there is none.
func (g *gateway) metric(series string) float64 {
	g.t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: g.net.gateway.DialContext, DisableKeepAlives: true}, Timeout: dialTimeout}
	resp, err := client.Get("http://127.0.0.1:9464/metrics")
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text := bufio.NewScanner(resp.Body)
	for text.Scan() {
		if value, ok := strings.CutPrefix(text.Text(), series+" "); ok {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return number
		}
	}
	return 0
}

// command runs another verb of the daemon's program against it.
func (g *gateway) command(args ...string) (string, error) {
	out, err := exec.Command(executable(), append(args, "--admin", "unix:"+g.socket())...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
