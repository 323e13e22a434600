package loader

import (
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// The program compares keys byte by byte and the daemon reads maps of another
// version by their layout: no byte may be without a name.
func TestMapTypesHaveNoPadding(t *testing.T) {
	spec, err := loadLb()
	if err != nil {
		t.Fatal(err)
	}
	structs := 0
	for name, m := range spec.Maps {
		if len(name) >= unix.BPF_OBJ_NAME_LEN {
			t.Errorf("map %s: the kernel would know it by another name", name)
		}
		for _, typ := range []btf.Type{m.Key, m.Value} {
			if typ != nil {
				structs += checkPadding(t, name, typ)
			}
		}
	}
	if structs < 15 {
		t.Errorf("found %d structs in the maps: has the object no types?", structs)
	}
}

// checkPadding walks a type and returns the number of structs in it.
func checkPadding(t *testing.T, where string, typ btf.Type) int {
	t.Helper()
	switch typ := btf.UnderlyingType(typ).(type) {
	case *btf.Array:
		return checkPadding(t, where+"[]", typ.Type)
	case *btf.Struct:
		n, end := 1, uint32(0)
		for _, m := range typ.Members {
			if m.Offset.Bytes() != end {
				t.Errorf("%s: struct %s has %d bytes of padding before %s", where, typ.Name, m.Offset.Bytes()-end, m.Name)
			}
			size, err := btf.Sizeof(m.Type)
			if err != nil {
				t.Fatal(err)
			}
			end = m.Offset.Bytes() + uint32(size)
			n += checkPadding(t, where+"."+m.Name, m.Type)
		}
		if end != typ.Size {
			t.Errorf("%s: struct %s has %d bytes of padding at its end", where, typ.Name, typ.Size-end)
		}
		return n
	}
	return 0
}

// The constants that Go repeats are those of the C headers.
func TestConstantsAreThoseOfTheObject(t *testing.T) {
	spec, err := loadLb()
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uintptr{
		lbMapL4lbTables: unsafe.Sizeof(slotTable{}),
		lbMapL4lbWide:   unsafe.Sizeof(wideSlotTable{}),
	} {
		if got := spec.Maps[name].InnerMap.ValueSize; uintptr(got) != size {
			t.Errorf("%s: tables of %d bytes, want %d", name, got, size)
		}
	}
	if got := spec.Maps[lbMapL4lbZstats].MaxEntries; got != ZoneMax*ZoneMax {
		t.Errorf("zone traffic: %d records, want %d", got, ZoneMax*ZoneMax)
	}
	var b lbBucket4
	if len(b.Flow) != bucketFlows {
		t.Errorf("%d flows to a bucket, want %d", len(b.Flow), bucketFlows)
	}
	if ClassMax != Class(len(lbMember{}.Generation)) {
		t.Errorf("%d classes, want %d", len(lbMember{}.Generation), ClassMax)
	}
}

// The verifier gives up at a million instructions; this fails long before.
func TestProgramIsVerifiedWithinItsBudget(t *testing.T) {
	d := load(t, Options{})
	info, err := d.objs.L4lbIngress.Info()
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := info.VerifiedInstructions(); !ok || n > 100_000 {
		t.Errorf("%d verified instructions, at most 100000 wanted", n)
	}
}

// The oldest kernel that we promise counts more stack than this one.
func TestStackFitsOlderKernels(t *testing.T) {
	spec, err := loadLb()
	if err != nil {
		t.Fatal(err)
	}
	depth, path := testutil.DeepestStack(spec.Programs["l4lb_ingress"])
	if depth > testutil.StackLimit {
		t.Errorf("a stack of %d bytes, at most %d are allowed: %s", depth, testutil.StackLimit, path)
	}
	if depth < 300 {
		t.Errorf("a stack of only %d bytes: %s", depth, path)
	}
}

// Sizes of every order load, and with the real clock.
func TestEverySizeLoads(t *testing.T) {
	testutil.RequireRoot(t)
	for name, o := range map[string]Options{
		"the smallest":           {FlowEntries: 1, Members: 2, Rules: 2, Services: 2, Frontends: 1, ZoneNodes: 2, Virtual: true},
		"the defaults":           {Virtual: true},
		"with the kernel's time": {FlowEntries: 1000, Members: 3, Rules: 5, Services: 7, Frontends: 9, ZoneNodes: 11},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Load(o)
			if err != nil {
				t.Fatalf("%+v", err)
			}
			defer func() { must(t, d.Close()) }()
			if _, _, err := d.Run(make([]byte, 60)); (err == nil) != o.Virtual {
				t.Errorf("Run: %v", err)
			}
		})
	}
}
