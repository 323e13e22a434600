package loader

import "fmt"

// Verdict is an XDP action.
type Verdict uint32

const (
	VerdictAborted Verdict = iota
	VerdictDrop
	VerdictPass
	VerdictTX
	VerdictRedirect
)

// String is the name that `replay` prints.
func (v Verdict) String() string {
	names := [...]string{"ABORTED", "DROP", "PASS", "TX", "REDIRECT"}
	if int(v) >= len(names) {
		return fmt.Sprintf("VERDICT_%d", uint32(v))
	}
	return names[v]
}

// TraceFlow says what connection tracking made of a packet.
type TraceFlow uint8

const (
	TraceNone TraceFlow = iota
	TraceHit
	TraceNew
)

// String is the name that `replay` prints.
func (f TraceFlow) String() string {
	return [...]string{"NONE", "HIT", "NEW"}[min(int(f), 2)]
}

// Trace is what was decided about one packet. Ids are 0 where there is none.
type Trace struct {
	Verdict Verdict
	Reason  Reason
	Rule    uint32
	Member  uint32
	Flow    TraceFlow
	Zone    uint8
}

// Run puts one frame through the program without any interface (semantics and
// maps are the real ones) and returns what was decided and the frame as it left.
// The data plane must be Virtual. Frames are at least 14 bytes.
func (d *Datapath) Run(frame []byte) (Trace, []byte, error) {
	return d.RunInto(frame, make([]byte, len(frame)+256))
}

// TestIfIndex is the interface that frames given to Run come in at: loopback.
const TestIfIndex = 1
