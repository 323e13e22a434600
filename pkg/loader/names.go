package loader

import (
	"bytes"
	"fmt"

	"github.com/cilium/ebpf"
)

// NameKind says what an id in the names map counts.
type NameKind uint32

const (
	nameKindSeed NameKind = iota
	// NameMember is "service/instance/address" of a member id.
	NameMember
	// NameRule is the name of a forwarding rule id, with RoutedSuffix where it is
	// that of the rule's use as the next hop of routes.
	NameRule
	// NameService is the name of a service id.
	NameService
	// NameZone is the name of a zone id.
	NameZone
)

// RoutedSuffix tells the names of a rule's two ids apart. No rule's name has a
// slash.
const RoutedSuffix = "/routed"

// layoutID is the id of the layout's name among those of kind nameKindSeed; the
// seed's is 0.
const layoutID = 1

// SetName remembers what an id stands for, so that the next daemon can take up
// where this one stopped. Names longer than 192 bytes are refused.
func (d *Datapath) SetName(kind NameKind, id uint32, name string) error {
	return putName(d.objs.L4lbNames, kind, id, name)
}

// DeleteName forgets an id.
func (d *Datapath) DeleteName(kind NameKind, id uint32) error {
	return d.objs.L4lbNames.Delete(lbNameKey{Kind: uint32(kind), Id: id})
}

// Names lists the ids of a kind with their names.
func (d *Datapath) Names(kind NameKind) (map[uint32]string, error) {
	return listNames(d.objs.L4lbNames, kind)
}

func listNames(m *ebpf.Map, kind NameKind) (map[uint32]string, error) {
	out := map[uint32]string{}
	var key lbNameKey
	var value lbNameValue
	iter := m.Iterate()
	for iter.Next(&key, &value) {
		if key.Kind == uint32(kind) {
			out[key.Id] = value.name()
		}
	}
	if err := iter.Err(); err != nil {
		return nil, fmt.Errorf("list names: %w", err)
	}
	return out, nil
}

func (v *lbNameValue) name() string {
	return string(bytes.TrimRight(v.Text[:], "\x00"))
}

func putName(m *ebpf.Map, kind NameKind, id uint32, name string) error {
	var value lbNameValue
	if len(name) > len(value.Text) {
		return fmt.Errorf("name %q is longer than %d bytes", name, len(value.Text))
	}
	copy(value.Text[:], name)
	return m.Put(lbNameKey{Kind: uint32(kind), Id: id}, value)
}

func lookupName(m *ebpf.Map, kind NameKind, id uint32) (string, error) {
	var value lbNameValue
	err := m.Lookup(lbNameKey{Kind: uint32(kind), Id: id}, &value)
	return value.name(), err
}

// lookupSeed reads the seed of the flow table.
func lookupSeed(names *ebpf.Map) (seed uint64, err error) {
	text, err := lookupName(names, nameKindSeed, 0)
	if err == nil && len(text) == 16 {
		_, err = fmt.Sscanf(text, "%016x", &seed)
	}
	if err != nil {
		return 0, fmt.Errorf("read flow table seed: %w", err)
	}
	return seed, nil
}
