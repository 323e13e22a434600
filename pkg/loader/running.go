package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// ErrVersion is returned for a program that another version of l4lbd has loaded.
var ErrVersion = errors.New("the gateway runs the program of another version")

// Running is a gateway's program that another process loaded, with its maps.
type Running struct {
	Program *ebpf.Program
	// Maps are all that the program uses but its constants, by the kernel's
	// names of them.
	Maps map[string]*ebpf.Map
	// Constants are the values of its load-time constants, by name.
	Constants map[string][]byte

	names *ebpf.Map
}

// ObjectID tells the data plane that is built in from every other build of it.
func ObjectID() string {
	sum := sha256.Sum256(_LbBytes)
	return hex.EncodeToString(sum[:8])
}

// OpenRunning opens a program of the gateway whose state is pinned under dir. object
// is the ObjectID of the process that loaded it: another build than the one that is
// built in here is ErrVersion.
func OpenRunning(dir string, id ebpf.ProgramID, object string) (_ *Running, err error) {
	r := &Running{Maps: map[string]*ebpf.Map{}, Constants: map[string][]byte{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open program %d of %s: %w", id, dir, err), r.Close())
		}
	}()
	if object != ObjectID() {
		return nil, fmt.Errorf("%w: use the l4lbd that runs it, or restart the gateway with this one", ErrVersion)
	}
	if r.Program, err = ebpf.NewProgramFromID(id); err != nil {
		return nil, err
	}
	info, err := r.Program.Info()
	if err != nil {
		return nil, err
	}
	spec, err := loadLb()
	if err != nil {
		return nil, err
	}
	if r.names, err = loadPinnedMap(dir, lbMapL4lbNames); err != nil {
		return nil, err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		if err := r.openMap(id, spec); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// openMap opens a map of the program, or reads the constants.
func (r *Running) openMap(id ebpf.MapID, spec *ebpf.CollectionSpec) error {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return fmt.Errorf("open map %d: %w", id, err)
	}
	info, err := m.Info()
	if err != nil {
		return errors.Join(err, m.Close())
	}
	if info.Name != constantsMap {
		r.Maps[info.Name] = m
		return nil
	}
	defer m.Close()
	var all []byte
	if err := m.Lookup(uint32(0), &all); err != nil {
		return fmt.Errorf("read constants: %w", err)
	}
	for name, v := range spec.Variables {
		if v.SectionName == constantsMap {
			r.Constants[name] = all[v.Offset:][:v.Size()]
		}
	}
	return nil
}

const constantsMap = ".rodata"

func loadPinnedMap(dir, name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
	if err != nil {
		return nil, fmt.Errorf("open pinned map %s: %w", name, err)
	}
	return m, nil
}

// Names lists the ids of a kind with their names.
func (r *Running) Names(kind NameKind) (map[uint32]string, error) { return listNames(r.names, kind) }

// Name is what an id stands for, "" where there is none.
func (r *Running) Name(kind NameKind, id uint32) (string, error) {
	name, err := lookupName(r.names, kind, id)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return "", nil
	}
	return name, err
}

// Close releases the handles.
func (r *Running) Close() error {
	var errs []error
	for _, m := range r.Maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(append(errs, r.names.Close(), r.Program.Close())...)
}

// PinnedLink is a program on an interface, as a gateway left it pinned.
type PinnedLink struct {
	Interface string
	IfIndex   uint32 // 0 when the interface is gone
	Program   ebpf.ProgramID
}

// PinnedLinks lists the links pinned under a gateway's directory, by the names of
// their interfaces. None is no error.
func PinnedLinks(dir string) (out []PinnedLink, err error) {
	err = eachPinned(dir, func(iface string, l link.Link) error {
		info, err := l.Info()
		if err != nil {
			return err
		}
		p := PinnedLink{Interface: iface, Program: info.Program}
		if xdp := info.XDP(); xdp != nil {
			p.IfIndex = xdp.Ifindex
		}
		out = append(out, p)
		return nil
	})
	return out, err
}

// ReplacePinned puts a program in the place of another one wherever a gateway has
// that pinned on an interface, and leaves what runs any other.
func ReplacePinned(dir string, old, program *ebpf.Program) error {
	info, err := old.Info()
	if err != nil {
		return fmt.Errorf("replace program: %w", err)
	}
	id, _ := info.ID()
	return eachPinned(dir, func(_ string, l link.Link) error {
		if info, err := l.Info(); err != nil || info.Program != id {
			return err
		}
		return replace(l, old, program)
	})
}

// replace changes a link's program if it is the old one.
func replace(l link.Link, old, program *ebpf.Program) error {
	raw, ok := l.(interface {
		UpdateArgs(opts link.RawLinkUpdateOptions) error
	})
	if !ok {
		return fmt.Errorf("replace program: %T is no link of a program", l)
	}
	return raw.UpdateArgs(link.RawLinkUpdateOptions{Old: old, New: program, Flags: bpfReplace})
}

// bpfReplace is BPF_F_REPLACE of linux/bpf.h.
const bpfReplace = 1 << 2

func eachPinned(dir string, f func(iface string, l link.Link) error) error {
	pins, err := filepath.Glob(filepath.Join(dir, linkPrefix+"*"))
	if err != nil {
		return fmt.Errorf("list pinned links: %w", err)
	}
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			return fmt.Errorf("open pinned link: %w", err)
		}
		err = errors.Join(f(strings.TrimPrefix(filepath.Base(pin), linkPrefix), l), l.Close())
		if err != nil {
			return fmt.Errorf("pinned link %s: %w", pin, err)
		}
	}
	return nil
}
