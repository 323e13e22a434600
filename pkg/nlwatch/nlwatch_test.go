package nlwatch

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

const deadline = 5 * time.Second

// Changes are told, and Close ends the subscription.
func TestChangesAreTold(t *testing.T) {
	ns := testutil.NewNetNS(t, "host")
	w, err := Open(ns.Handle(), unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Changes():
		t.Error("a change before there was one")
	default:
	}
	if err := ns.Netlink().LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Changes():
	case <-time.After(deadline):
		t.Error("new links were not told")
	}
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(deadline):
		t.Error("Close did not return")
	}
}
