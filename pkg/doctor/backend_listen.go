package doctor

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// States of sockets in /proc/net, as in net/tcp_states.h: a UDP socket that is
// bound and not connected is in the state called closed.
const (
	stateListen = "0A"
	stateClosed = "07"
)

// socket is one that waits for whoever comes.
type socket struct {
	protocol string // "tcp" or "udp"
	at       netip.AddrPort
}

// takes reports whether the socket gets what is for a VIP and port. An IPv6
// wildcard gets IPv4 too unless it was told otherwise, which cannot be seen.
func (s socket) takes(vip netip.Addr, port uint16) bool {
	a := s.at.Addr()
	return s.at.Port() == port && (a == vip || a.IsUnspecified() && (a.Is6() || vip.Is4()))
}

func checkListening(_ context.Context, b *backend) ([]Finding, error) {
	if len(b.Ports) == 0 {
		return []Finding{{Status: Note, What: "no port was named: --port"}}, nil
	}
	sockets, err := listeners()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, vip := range b.VIPs {
		for _, port := range b.Ports {
			if f := listenFinding(sockets, vip, port); f.Status != OK {
				out = append(out, f)
			}
		}
	}
	return unlessFound(out, well("", "each port")), nil
}

func listenFinding(sockets []socket, vip netip.Addr, port uint16) Finding {
	subject := netip.AddrPortFrom(vip, port).String()
	if slices.ContainsFunc(sockets, func(s socket) bool { return s.takes(vip, port) }) {
		return well(subject, "taken")
	}
	f := Finding{
		Subject: subject, Status: Problem, What: "nothing listens on the port",
		Why:  "clients and health checks are refused",
		Mend: []string{fmt.Sprintf("ss -lntup 'sport = :%d'", port)},
	}
	var elsewhere []string
	for _, s := range sockets {
		if s.at.Port() == port {
			elsewhere = append(elsewhere, s.protocol+" "+s.at.String())
		}
	}
	if len(elsewhere) > 0 {
		f.What = fmt.Sprintf("what listens on the port does not take the VIP: %s", strings.Join(elsewhere, ", "))
		f.Why = "packets for the VIP are refused: the service must listen on it or on every address"
	}
	return f
}

// listeners reads the sockets of the calling thread's namespace.
func listeners() ([]socket, error) {
	var out []socket
	for _, file := range []struct{ name, protocol, state string }{
		{"tcp", "tcp", stateListen}, {"tcp6", "tcp", stateListen}, {"udp", "udp", stateClosed}, {"udp6", "udp", stateClosed},
	} {
		f, err := os.Open("/proc/thread-self/net/" + file.name)
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if at, ok := parseSocket(lines.Text(), file.state); ok {
				out = append(out, socket{file.protocol, at})
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read sockets: %w", err)
		}
	}
	return out, nil
}

// parseSocket reads the local address of a line of /proc/net/tcp and its
// siblings: words of 32 bits in the machine's order, here little-endian.
func parseSocket(line, state string) (netip.AddrPort, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != state {
		return netip.AddrPort{}, false
	}
	host, port, ok := strings.Cut(fields[1], ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}
