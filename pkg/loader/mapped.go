package loader

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mapArray maps a BPF_F_MMAPABLE array as a slice of its values. Writes to it
// are seen by the program at once; records are written field by field in an
// order that holds at every moment, or as aligned words of at most 16 bytes.
func mapArray[T any](d *Datapath, m *ebpf.Map) ([]T, error) {
	var zero T
	size := int(m.ValueSize()) * int(m.MaxEntries())
	if int(unsafe.Sizeof(zero)) != int(m.ValueSize()) || m.ValueSize()%8 != 0 {
		return nil, fmt.Errorf("map %s: value of %d bytes", m, m.ValueSize())
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(m.FD(), 0, (size+page-1)&^(page-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", m, err)
	}
	d.mappings = append(d.mappings, mem)
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), m.MaxEntries()), nil
}

func (d *Datapath) mapMemory() error {
	var errs [10]error
	d.members, errs[0] = mapArray[lbMember](d, d.objs.L4lbMembers)
	d.rules, errs[1] = mapArray[lbRule](d, d.objs.L4lbRules)
	d.fronts, errs[2] = mapArray[lbFront](d, d.objs.L4lbFronts)
	d.zones, errs[3] = mapArray[lbZoneNode](d, d.objs.L4lbZones)
	d.ports, errs[4] = mapArray[lbPort](d, d.objs.L4lbPorts)
	d.flows4, errs[5] = mapArray[lbBucket4](d, d.objs.L4lbFlows4)
	d.flows6, errs[6] = mapArray[lbBucket6](d, d.objs.L4lbFlows6)
	d.picks, errs[7] = mapArray[lbPick](d, d.objs.L4lbPicks)
	d.admits, errs[8] = mapArray[lbAdmission](d, d.objs.L4lbAdmission)
	d.tunnels, errs[9] = mapArray[lbTunnel](d, d.objs.L4lbTunnels)
	return errors.Join(errs[:]...)
}

func (d *Datapath) unmapMemory() error {
	var errs []error
	for _, mem := range d.mappings {
		errs = append(errs, unix.Munmap(mem))
	}
	d.mappings = nil
	d.tunnels = nil
	d.members, d.rules, d.picks, d.fronts, d.zones, d.ports = nil, nil, nil, nil, nil, nil
	d.flows4, d.flows6, d.admits = nil, nil, nil
	return errors.Join(errs...)
}
