package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"l4lb/pkg/nlwatch"
)

// Run watches over device, rules and routes until ctx ends, and makes anew what
// somebody removed: network managers are known to drop rules they do not know.
func (o *Output) Run(ctx context.Context) error {
	watch, err := nlwatch.Open(o.ns, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return fmt.Errorf("follow rules: %w", err)
	}
	defer watch.Close()
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		o.verify() // at first for what changed before anybody watched
		select {
		case <-ctx.Done():
			return nil
		case <-watch.Changes():
		case <-tick.C:
			o.recheckReverse()
		}
	}
}

func (o *Output) recheckReverse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reverse.recheck()
}

// verify mends the set-up.
func (o *Output) verify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	what, err := o.device.missing(o.nl)
	if err == nil && what != "" {
		o.log.Warn("the way of health checks was removed, making it anew", "device", o.device.name, "missing", what)
		err = o.mend()
	}
	if err != nil {
		o.log.Error("keep the way of health checks", "device", o.device.name, "err", err)
	}
}

// mend is for a caller that holds mu.
func (o *Output) mend() error {
	err := o.device.add(o.nl)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make device %s: %w", o.device.name, err)
	}
	if err := o.device.configure(o.nl); err != nil {
		return err
	}
	o.mtu = defaultMTU
	return o.fitMTU()
}

// inside runs f on a thread that is in the namespace of Open.
func (o *Output) inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- err
			return // the thread ends with the goroutine
		}
		defer home.Close()
		if err = netns.Set(o.ns); err == nil {
			err = f()
		}
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
