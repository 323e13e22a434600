package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"l4lb/pkg/admin"
)

func checkDaemon(_ context.Context, g *gateway) ([]Finding, error) {
	if g.status == nil {
		return []Finding{{
			Status: Note, What: "no l4lbd answers at " + g.Config.Gateway.AdminListen,
			Why:  "nothing is forwarded by it; the doctor makes its own probes",
			Mend: []string{"systemctl start l4lbd"},
		}}, nil
	}
	return unlessFound(daemonFindings(g.status, g.Config.Gateway.Name),
		well(g.status.Gateway, "l4lbd %s is ready, pid %d", g.status.Version, g.status.PID)), nil
}

func daemonFindings(s *admin.Status, name string) []Finding {
	var out []Finding
	if s.Gateway != name {
		out = append(out, Finding{
			Subject: s.Gateway, Status: Problem, What: fmt.Sprintf("the daemon is gateway %s, and not %s", s.Gateway, name),
			Why:  "another configuration is in force than the one that is examined",
			Mend: []string{"l4lbd doctor --config " + s.Config.File},
		})
	}
	if s.Config.LastError != "" {
		out = append(out, Finding{
			Subject: s.Config.File, Status: Problem, What: "the newest reload was refused: " + s.Config.LastError,
			Why:  "an older configuration is in force",
			Mend: []string{"l4lbd validate --config " + s.Config.File, "systemctl reload l4lbd"},
		})
	}
	for _, i := range s.Interfaces {
		if !i.Attached {
			out = append(out, Finding{
				Subject: i.Name, Status: Problem, What: "the program is not on the interface",
				Why:  "nothing that arrives there is balanced",
				Mend: []string{"journalctl -u l4lbd -n 50", "systemctl restart l4lbd"},
			})
		}
	}
	if !s.Ready && len(out) == 0 {
		out = append(out, Finding{
			Subject: s.Gateway, Status: Problem, What: "the daemon is not ready",
			Why:  "packets are not forwarded by the configuration yet",
			Mend: []string{"journalctl -u l4lbd -n 50"},
		})
	}
	return out
}

// checkListeners matters before a start: the daemon that runs has them.
func checkListeners(_ context.Context, g *gateway) ([]Finding, error) {
	if g.status != nil {
		return []Finding{well("", "the daemon has them")}, nil
	}
	gw := &g.Config.Gateway
	var out []Finding
	for _, l := range []struct{ key, address string }{{"adminListen", gw.AdminListen}, {"metricsListen", gw.MetricsListen}} {
		if l.address == "" {
			continue
		}
		if f, bad := listenerFinding(l.key, l.address); bad {
			out = append(out, f)
		}
	}
	return unlessFound(out, well("", "free")), nil
}

func listenerFinding(key, address string) (Finding, bool) {
	f := Finding{Subject: key + " " + address, Status: Problem, Why: "the daemon will not start"}
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			f.What = "another process than l4lbd answers there"
			f.Mend = []string{"ss -xlp src " + path}
			return f, true
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
			f.What, f.Mend = "there is something that is not a socket", []string{"rm " + path}
			return f, true
		}
		return f, false
	}
	lis, err := net.Listen("tcp", address)
	if err == nil {
		lis.Close()
		return f, false
	}
	f.What = fmt.Sprintf("cannot listen there: %v", err)
	_, port, _ := net.SplitHostPort(address)
	f.Mend = []string{fmt.Sprintf("ss -ltnp 'sport = :%s'", port)}
	if errors.Is(err, unix.EADDRINUSE) {
		f.What = "another process listens there"
	} else if errors.Is(err, unix.EADDRNOTAVAIL) {
		f.What, f.Mend = "it is no address of this host", []string{"ip addr show"}
	}
	return f, true
}
