package healthcheck

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"l4lb/pkg/lb"
)

// maxText is the longest request, response or service name a check may hold
// (semantics.md 5.1).
const maxText = 1024

// Target is one thing that is probed: an address, the way to it and the
// parameters of the probe. Services that share all of it share one Target, so a
// backend sees one series of probes however many services it is in.
type Target struct {
	Addr  netip.Addr
	Via   Via
	Check lb.HealthCheck
}

// Via is the backend that a probe of a shared address is delivered to, and how.
// The zero Via means that Addr is the backend's own and routing finds it.
type Via struct {
	Backend netip.Addr
	Way     lb.Way
}

// Direct reports whether probes go by the gateway's own routing.
func (v Via) Direct() bool { return v == Via{} }

// Key returns the canonical form of t, under which the Checker keeps it and
// which all its Events and Statuses carry: an IPv4-mapped address is unmapped,
// and Name and LogEnabled, which do not change what a probe does, are cleared.
func (t Target) Key() Target {
	t.Addr = t.Addr.Unmap()
	t.Via.Backend = t.Via.Backend.Unmap()
	t.Check.Name = ""
	t.Check.LogEnabled = false
	return t
}

// AddrPort is where the probe connects to.
func (t Target) AddrPort() netip.AddrPort { return netip.AddrPortFrom(t.Addr, t.Check.Port) }

// Endpoint is the address of the backend that is tested.
func (t Target) Endpoint() netip.Addr {
	if t.Via.Direct() {
		return t.Addr
	}
	return t.Via.Backend
}

// String names the target for messages: "HTTP 192.0.2.1:80", and with a backend
// to deliver to "HTTP 192.0.2.1:80 via 10.0.0.1".
func (t Target) String() string {
	s := fmt.Sprintf("%s %s", t.Check.Type, t.AddrPort())
	if !t.Via.Direct() {
		s += " via " + t.Via.Backend.String()
	}
	return s
}

// validate reports everything that keeps t from being probed as semantics.md
// 5.1 describes. Ranges that are only advice are left to the configuration.
func (t Target) validate() error {
	var errs []error
	reject := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("target %s: "+format, append([]any{t}, args...)...))
		}
	}
	c := &t.Check
	reject(!t.Addr.IsValid(), "no address")
	reject(!t.Via.Direct() && (!t.Via.Backend.IsValid() || t.Via.Way.Forwarding == ""), "no backend to deliver to")
	reject(c.Port == 0, "no port")
	reject(c.CheckInterval < time.Millisecond, "check interval %v is too short", c.CheckInterval)
	reject(c.Timeout <= 0 || c.Timeout > c.CheckInterval,
		"timeout %v is not between 0 and the check interval %v", c.Timeout, c.CheckInterval)
	reject(c.HealthyThreshold < 1, "healthy threshold %d is below 1", c.HealthyThreshold)
	reject(c.UnhealthyThreshold < 1, "unhealthy threshold %d is below 1", c.UnhealthyThreshold)
	reject(c.ProxyHeader != "" && c.ProxyHeader != lb.ProxyNone && c.ProxyHeader != lb.ProxyV1,
		"unknown proxy header %q", c.ProxyHeader)
	reject(len(c.Request) > maxText, "request is longer than %d bytes", maxText)
	reject(len(c.Response) > maxText, "response is longer than %d bytes", maxText)
	reject(c.RequestPath != "" && (c.RequestPath[0] != '/' || !plain(c.RequestPath)),
		"request path %q is not an absolute path of printable characters", c.RequestPath)
	reject(len(c.GRPCServiceName) > maxText, "service name is longer than %d bytes", maxText)
	reject(!plain(c.ServerName), "server name %q holds spaces or control characters", c.ServerName)
	reject(!plain(c.Host), "host %q holds spaces or control characters", c.Host)
	return errors.Join(errs...)
}

// plain reports whether s can stand in the head of an HTTP request without
// ending the line or the field it is in.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
