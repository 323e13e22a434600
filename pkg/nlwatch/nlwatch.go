// Package nlwatch tells that something changed in a network namespace: the kernel's
// routing netlink groups, without what their messages say. For those who look for
// themselves afterwards.
package nlwatch

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch is a subscription to groups of rtnetlink messages.
type Watch struct {
	socket  *nl.NetlinkSocket
	changes chan struct{}
	ended   chan struct{}
}

// Open subscribes to groups (RTNLGRP_*) in a namespace. The caller is to Close.
func Open(ns netns.NsHandle, groups ...uint) (*Watch, error) {
	socket, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink: %w", err)
	}
	w := &Watch{socket: socket, changes: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.receive()
	return w, nil
}

// Changes has an element when there were messages since the last one was taken.
// Lost messages are a change like any other.
func (w *Watch) Changes() <-chan struct{} { return w.changes }

// Close ends the subscription.
func (w *Watch) Close() {
	w.socket.Close()
	<-w.ended
}

func (w *Watch) receive() {
	defer close(w.ended)
	for {
		_, _, err := w.socket.Receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return
		}
		select {
		case w.changes <- struct{}{}:
		default:
		}
	}
}
