package neigh

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// receiveBuffer holds the messages of a change of some thousand neighbours or
// routes, in bytes.
const receiveBuffer = 4 << 20

// subscribe opens one socket for all subjects, so that messages arrive in the
// order of the changes.
func subscribe(ns netns.NsHandle) (*nl.NetlinkSocket, error) {
	sub, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP)
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink: %w", err)
	}
	if sub.SetReceiveBufferSize(receiveBuffer, true) != nil {
		// Beyond rmem_max needs a privilege; with less, losses and thus
		// resyncs are more frequent.
		if err := sub.SetReceiveBufferSize(receiveBuffer, false); err != nil {
			sub.Close()
			return nil, fmt.Errorf("size netlink buffer: %w", err)
		}
	}
	return sub, nil
}

// receive passes messages on until the socket is closed or messages were lost,
// which the kernel reports as ENOBUFS.
func (k *netlinkKernel) receive() {
	defer close(k.ch)
	for {
		msgs, from, err := k.sub.Receive()
		if err != nil {
			return
		}
		if from.Pid != nl.PidKernel {
			continue
		}
		batch := make([]event, 0, len(msgs))
		for i := range msgs {
			e, err := parse(&msgs[i])
			if err != nil {
				return // not understood is as good as lost
			}
			if e != nil {
				batch = append(batch, e)
			}
		}
		if len(batch) == 0 {
			continue
		}
		select {
		case k.ch <- batch:
		case <-k.done:
			return
		}
	}
}

// parse turns a netlink message into an event, or into nil where it is of no
// interest.
func parse(m *syscall.NetlinkMessage) (event, error) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLink(m)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, err := netlink.NeighDeserialize(m.Data)
		if err != nil {
			return nil, fmt.Errorf("parse neighbour: %w", err)
		}
		out, ok := neighbourOf(n)
		switch {
		case !ok:
			return nil, nil
		case m.Header.Type == unix.RTM_DELNEIGH:
			return neighbourGone{out.hop}, nil
		}
		return neighbourChanged{out}, nil
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return parseRoute(m.Data)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return rulesChanged{}, nil
	}
	return nil, nil
}

func parseLink(m *syscall.NetlinkMessage) (event, error) {
	hdr := unix.NlMsghdr(m.Header)
	l, err := netlink.LinkDeserialize(&hdr, m.Data)
	if err != nil {
		return nil, fmt.Errorf("parse link: %w", err)
	}
	info := nl.DeserializeIfInfomsg(m.Data)
	if info.Family != unix.AF_UNSPEC {
		return nil, nil // a bridge port or IPv6 settings, not the link itself
	}
	if m.Header.Type == unix.RTM_DELLINK {
		return linkGone{l.Attrs().Index}, nil
	}
	return linkChanged{linkOf(l.Attrs())}, nil
}

// parseRoute takes no more than the destination: the way there is looked up.
func parseRoute(data []byte) (event, error) {
	msg := nl.DeserializeRtMsg(data)
	if msg.Flags&unix.RTM_F_CLONED != 0 {
		return nil, nil
	}
	var dst netip.Addr
	switch msg.Family {
	case unix.AF_INET:
		dst = netip.IPv4Unspecified()
	case unix.AF_INET6:
		dst = netip.IPv6Unspecified()
	default:
		return nil, nil
	}
	attrs, err := nl.ParseRouteAttr(data[msg.Len():])
	if err != nil {
		return nil, fmt.Errorf("parse route: %w", err)
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.RTA_DST {
			dst, _ = netip.AddrFromSlice(a.Value)
		}
	}
	return routeChanged{netip.PrefixFrom(dst, int(msg.Dst_len))}, nil
}
