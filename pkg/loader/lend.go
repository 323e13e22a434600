package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrLent is returned while another program is in the place of this one.
var ErrLent = errors.New("a capture runs already: only one can at a time")

// Lend puts a program that another process loaded, on the same maps, in the place
// of this one on every interface, until restore is called. Packets are handled all
// the while. Lend and restore are safe for concurrent use with Attach.
func (d *Datapath) Lend(id uint32) (restore func() error, err error) {
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return nil, fmt.Errorf("open program %d: %w", id, err)
	}
	if err := d.mayStandIn(program); err != nil {
		return nil, errors.Join(fmt.Errorf("program %d: %w", id, err), program.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lent != nil {
		return nil, errors.Join(ErrLent, program.Close())
	}
	d.lent = program
	if err := d.updateLinks(program); err != nil {
		return nil, errors.Join(err, d.restoreLocked())
	}
	return func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.restoreLocked()
	}, nil
}

func (d *Datapath) restoreLocked() error {
	lent := d.lent
	d.lent = nil
	return errors.Join(d.updateLinks(d.objs.L4lbIngress), lent.Close())
}

func (d *Datapath) updateLinks(program *ebpf.Program) error {
	var errs []error
	for iface, a := range d.links {
		// ENOLINK: the interface is gone.
		if err := a.link.Update(program); err != nil && !errors.Is(err, unix.ENOLINK) {
			errs = append(errs, fmt.Errorf("replace program on %s: %w", iface, err))
		}
	}
	return errors.Join(errs...)
}

// mayStandIn makes sure that a program forwards as this one does, by its flows.
func (d *Datapath) mayStandIn(program *ebpf.Program) error {
	info, err := program.Info()
	if err != nil {
		return err
	}
	if program.Type() != ebpf.XDP {
		return errors.New("it is not for XDP")
	}
	ids, _ := info.MapIDs()
	uses := map[ebpf.MapID]bool{}
	for _, id := range ids {
		uses[id] = true
	}
	for _, m := range []*ebpf.Map{d.objs.L4lbFlows4, d.objs.L4lbFlows6, d.objs.L4lbMembers, d.objs.L4lbRules, d.objs.L4lbFronts} {
		info, err := m.Info()
		if err != nil {
			return err
		}
		if id, _ := info.ID(); !uses[id] {
			return fmt.Errorf("it does not use this gateway's %s", info.Name)
		}
	}
	return nil
}
