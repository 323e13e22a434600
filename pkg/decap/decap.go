// Package decap takes a gateway's packets out of their tunnels on a backend
// that has no tunnel device. An XDP program on the backend's interface strips
// the outer headers of IPIP (of any two address families), GUE and GENEVE, and
// hands the inner packet to the kernel as if it had come by the link. Tunnels
// are accepted only from listed gateways; everything else is left alone.
//
// Nothing is pinned: the program is on the interface as long as the process
// lives, however it ends.
package decap

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

// Ports of tunnels over UDP, as the gateway's.
const (
	DefaultGUEPort    = 6080
	DefaultGENEVEPort = 6081
)

// Options say which tunnels a host accepts. Interface and Gateways are required.
type Options struct {
	Interface string
	Mode      lb.XDPMode // "" means native
	// Gateways are the outer sources that may send tunnels.
	Gateways []netip.Prefix
	// Addresses are the outer destinations that tunnels end at. Without any
	// they are the interface's own, as they change.
	Addresses []netip.Addr
	// VIPs are what inner packets may be for. Without any, all are accepted.
	VIPs []netip.Prefix
	// GUEPort and GENEVEPort are UDP ports; 0 accepts no such tunnel.
	GUEPort, GENEVEPort uint16
	// Logger gets what an operator would want to know. Nil discards it.
	Logger *slog.Logger
}

// Validate checks options and fills in defaults.
func (o *Options) Validate() error {
	switch {
	case o.Interface == "":
		return errors.New("no interface is named")
	case len(o.Gateways) == 0:
		return errors.New("no gateway is named: tunnels would be accepted from nobody")
	case o.GUEPort != 0 && o.GUEPort == o.GENEVEPort:
		return fmt.Errorf("GUE and GENEVE cannot share port %d", o.GUEPort)
	}
	for _, p := range slices.Concat(o.Gateways, o.VIPs) {
		if !p.IsValid() {
			return errors.New("a range is not valid")
		}
		if p != p.Masked() {
			return fmt.Errorf("%s: host bits are set: use %s", p, p.Masked())
		}
	}
	if o.Mode == "" {
		o.Mode = lb.XDPNative
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Decap is the program on one interface.
type Decap struct {
	opts  Options
	objs  decapObjects
	index int // of the interface
	ns    netns.NsHandle
	nl    *netlink.Handle
	link  link.Link
	local []netip.Addr // what l4lb_ends holds
}

// Open loads the program and attaches it to the interface, in the network
// namespace of the calling thread. On error nothing is left behind.
func Open(o Options) (_ *Decap, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	d, err := load(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	dev, err := net.InterfaceByName(o.Interface)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", o.Interface, err)
	}
	d.index = dev.Index
	if d.ns, err = netns.Get(); err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	if d.nl, err = netlink.NewHandleAt(d.ns, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := d.follow(); err != nil {
		return nil, err
	}
	if d.link, err = attach(dev, d.objs.L4lbDecap, o.Mode); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", o.Interface, err)
	}
	return d, nil
}

// load verifies the program and fills in what does not change. Nothing is
// attached.
func load(o Options) (_ *Decap, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory lock limit: %w", err)
	}
	spec, err := loadDecap()
	if err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	check := uint8(0)
	if len(o.VIPs) > 0 {
		check = 1
	}
	err = errors.Join(
		spec.Variables[decapVarCfgGuePort].Set(networkOrder(o.GUEPort)),
		spec.Variables[decapVarCfgGenevePort].Set(networkOrder(o.GENEVEPort)),
		spec.Variables[decapVarCfgCheckInner].Set(check),
	)
	if err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	d := &Decap{opts: o, ns: netns.None()}
	if err := spec.LoadAndAssign(&d.objs, nil); err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	err = errors.Join(putRanges(d.objs.L4lbGateways, o.Gateways), putRanges(d.objs.L4lbInners, o.VIPs))
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func attach(dev *net.Interface, prog *ebpf.Program, mode lb.XDPMode) (link.Link, error) {
	flags := link.XDPDriverMode
	if mode == lb.XDPGeneric {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Index, Flags: flags})
	switch {
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST):
		return nil, fmt.Errorf("the interface has another XDP program: detach it first: %w", err)
	case mode == lb.XDPNative && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, ebpf.ErrNotSupported)):
		return nil, fmt.Errorf("the driver has no native XDP: use --xdp-mode generic, which is slower: %w", err)
	}
	return l, err
}

// Close detaches the program: tunnels go to the kernel from then on.
func (d *Decap) Close() error {
	var errs []error
	if d.link != nil {
		// Without Detach the program would stay for a while after Close.
		if err := d.link.Detach(); err != nil && !errors.Is(err, unix.ENOLINK) {
			errs = append(errs, fmt.Errorf("detach: %w", err))
		}
		errs = append(errs, d.link.Close())
		d.link = nil
	}
	if d.nl != nil {
		d.nl.Close()
		d.nl = nil
	}
	if d.ns.IsOpen() {
		errs = append(errs, d.ns.Close())
	}
	return errors.Join(append(errs, d.objs.Close())...)
}
