package admin

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"l4lb/pkg/conntrack"
)

// filterQuery is the query that parseFilter reads.
func filterQuery(f conntrack.Filter) url.Values {
	q := url.Values{}
	set := func(key, value string, wanted bool) {
		if wanted {
			q.Set(key, value)
		}
	}
	set("client", f.Client.String(), f.Client.IsValid())
	set("vip", f.VIP.String(), f.VIP.IsValid())
	set("backend", f.Backend, f.Backend != "")
	set("service", f.Service, f.Service != "")
	set("zone", f.Zone, f.Zone != "")
	set("state", f.State.String(), f.State != 0)
	set("minIdleSec", strconv.FormatInt(int64(f.MinIdle/time.Second), 10), f.MinIdle > 0)
	set("limit", strconv.Itoa(f.Limit), f.Limit > 0)
	return q
}

// parseFilter reads what to filter flows by; what is absent wants all.
func parseFilter(q url.Values) (f conntrack.Filter, err error) {
	f.Backend, f.Service, f.Zone = q.Get("backend"), q.Get("service"), q.Get("zone")
	if text := q.Get("client"); text != "" {
		if f.Client, err = ParseClients(text); err != nil {
			return f, err
		}
	}
	if text := q.Get("vip"); text != "" {
		if f.VIP, err = netip.ParseAddr(text); err != nil {
			return f, fmt.Errorf("vip %q is not an IP address", text)
		}
	}
	if text := q.Get("state"); text != "" {
		if f.State, err = conntrack.ParseState(text); err != nil {
			return f, err
		}
	}
	idle, err := number(q, "minIdleSec")
	if err != nil {
		return f, err
	}
	f.MinIdle = time.Duration(idle) * time.Second
	f.Limit, err = number(q, "limit")
	return f, err
}

// ParseClients reads a range of clients: an address or a network.
func ParseClients(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("client %q is neither an IP address nor a network", text)
	}
	return p.Masked(), nil
}

func number(q url.Values, key string) (int, error) {
	text := q.Get(key)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q is no number from 0 to %d", key, text, 1<<31-1)
	}
	return int(n), nil
}
