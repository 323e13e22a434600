package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// block is what a reader that is not ours finds of a packet in a file.
type block struct {
	Interface string
	Time      time.Time
	Comment   string
	Direction pcapgo.NgEpbFlag
	ID        uint64
	Verdict   uint64
	Data      []byte
	Length    int
}

// readFile reads a file with gopacket.
func readFile(t *testing.T, file []byte) (blocks []block, interfaces []pcapgo.NgInterface) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{})
	must(t, err)
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		i, err := r.Interface(ci.InterfaceIndex)
		must(t, err)
		blocks = append(blocks, block{
			Interface: i.Name, Time: ci.Timestamp.UTC(), Comment: opts.Comments[0], Direction: opts.Flags.Direction,
			ID: *opts.PacketID, Verdict: binary.LittleEndian.Uint64(opts.Verdicts[0].Data), Data: data, Length: ci.Length,
		})
	}
	for n := range r.NInterfaces() {
		i, err := r.Interface(n)
		must(t, err)
		interfaces = append(interfaces, i)
	}
	return blocks, interfaces
}

// A file has a block for each packet that arrives and one for each that leaves, of
// interfaces that say which, with the packet's fate; and the counts at its end.
func TestFileIsReadByOthers(t *testing.T) {
	var file bytes.Buffer
	f := &File{Open: func() (io.Writer, error) { return &file, nil }, SnapLen: 54, Filter: "tcp", Application: "l4lbd test"}
	must(t, f.Start([]string{"eth0", "eth1"}))
	at := time.Unix(1700000000, 123456789).UTC()
	in, out := testutil.SYN(t, clientA4, web4)[:54], []byte("another frame")
	must(t, f.Packet(&Packet{
		ID: 1, Verdict: loader.VerdictRedirect, Flow: loader.TraceNew, Rule: "web-tcp", Service: "web", Backend: "a1", Zone: "zone-a",
		In:  Frame{Interface: "eth1", Time: at, Data: in, Length: 1500},
		Out: Frame{Interface: "eth2", Time: at.Add(time.Microsecond), Data: out, Length: len(out)},
	}))
	must(t, f.Packet(&Packet{
		ID: 2, Verdict: loader.VerdictDrop, Reason: loader.Reason(reasons()["NO_RULE"]), In: Frame{Interface: "eth0", Time: at, Data: in, Length: len(in)},
	}))
	must(t, f.Finish(&Summary{
		Start: at, End: at.Add(time.Second),
		Interfaces: []InterfaceSummary{{Name: "eth0", Seen: 10, Matched: 4, Skipped: 2, Lost: 1}, {Name: "eth1", Seen: 5, Matched: 1}},
	}))

	blocks, interfaces := readFile(t, file.Bytes())
	want := []block{
		{
			Interface: "eth1 in", Time: at, Comment: "REDIRECT rule=web-tcp service=web backend=a1 flow=NEW zone=zone-a",
			Direction: pcapgo.NgEpbFlagDirectionInbound, ID: 1, Verdict: 4, Data: in, Length: 1500,
		},
		{
			Interface: "eth2 out (l4lb)", Time: at.Add(time.Microsecond), Comment: "REDIRECT rule=web-tcp service=web backend=a1 flow=NEW zone=zone-a",
			Direction: pcapgo.NgEpbFlagDirectionOutbound, ID: 1, Verdict: 4, Data: out, Length: len(out),
		},
		{
			Interface: "eth0 in", Time: at, Comment: "DROP reason=NO_RULE",
			Direction: pcapgo.NgEpbFlagDirectionInbound, ID: 2, Verdict: 1, Data: in, Length: len(in),
		},
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
	var got []string
	for _, i := range interfaces {
		got = append(got, fmt.Sprintf("%s %s %d: %d received, %d dropped", i.Name, i.Filter, i.SnapLength,
			i.Statistics.PacketsReceived, int64(i.Statistics.PacketsDropped)))
	}
	wantStats := []string{
		"eth0 in tcp 54: 10 received, 3 dropped",
		"eth1 in tcp 54: 5 received, 0 dropped",
		"eth2 out (l4lb) tcp 54: 1 received, -1 dropped",
	}
	if diff := cmp.Diff(wantStats, got); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

// A file that cannot be written ends the capture with the reason, and the gateway
// has its own program again.
func TestFileThatIsFull(t *testing.T) {
	g := newGateway(t)
	full := errors.New("no space left")
	started := make(chan struct{})
	f := &File{Open: func() (io.Writer, error) {
		close(started)
		return &limited{left: 600, err: full}, nil
	}}
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), g.options(Options{Sink: f}))
		done <- err
	}()
	awaitStart(t, started, done)
	g.send(slices.Repeat([][]byte{testutil.SYN(t, clientA4, web4)}, 5)...)
	if err := <-done; !errors.Is(err, full) || !g.runs(g.Program()) {
		t.Errorf("error %v, own program %v", err, g.runs(g.Program()))
	}
}

// limited takes so many bytes.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, l.err
	}
	return len(b), nil
}
