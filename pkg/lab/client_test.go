package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// echoServer answers each line as a backend of that name would, but the line of
// that number by trouble.
func echoServer(t *testing.T, name string, number int, trouble func(net.Conn)) (addr string, served <-chan struct{}) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	lines := make(chan struct{}, 1000)
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := 1; ; n++ {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if n == number {
						trouble(conn)
					} else {
						fmt.Fprintf(conn, "%s %s", name, line)
					}
					lines <- struct{}{}
				}
			}()
		}
	}()
	return lis.Addr().String(), lines
}

// runClients runs two connections to each server until each server has seen
// four lines.
func runClients(t *testing.T, targets []string, served []<-chan struct{}) ClientReport {
	t.Helper()
	stop, end := io.Pipe()
	var out strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- RunClients(t.Context(), ClientOptions{
			Targets: targets, Count: 2 * len(targets), Pause: time.Millisecond, Stop: stop, Out: &out,
		})
	}()
	for _, s := range served {
		for range 4 {
			<-s
		}
	}
	end.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	text, found := strings.CutPrefix(out.String(), "open\n")
	var report ClientReport
	if err := json.Unmarshal([]byte(text), &report); err != nil || !found {
		t.Fatalf("the report is %q: %v", out.String(), err)
	}
	return report
}

func TestClientsTellWhatBecameOfEachConnection(t *testing.T) {
	var targets []string
	var served []<-chan struct{}
	add := func(name string, number int, trouble func(net.Conn)) {
		addr, lines := echoServer(t, name, number, trouble)
		targets, served = append(targets, addr), append(served, lines)
	}
	add("good", 0, nil)
	add("mover", 2, func(c net.Conn) { fmt.Fprint(c, "other 2\n") })
	add("breaker", 2, func(c net.Conn) {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
	add("loser", 2, func(c net.Conn) { fmt.Fprint(c, "loser 7\n") })

	report := runClients(t, targets, served)
	for _, f := range report.Backends {
		if f.Lines < f.Connections {
			t.Errorf("%d lines of %d connections", f.Lines, f.Connections)
		}
		f.Lines = 0
	}
	want := map[string]*Fate{
		"good":    {Connections: 2, Kept: 2},
		"mover":   {Connections: 2, Moved: 2},
		"breaker": {Connections: 2, Reset: 2},
		"loser":   {Connections: 2, Lost: 2, Error: report.Backends["loser"].Error},
	}
	if diff := cmp.Diff(want, report.Backends); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if want["loser"].Error == "" || report.Slowest <= 0 {
		t.Errorf("no error or no slowest answer: %+v", report)
	}
}

func TestClientsFailWhereNobodyListens(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close()
	o := ClientOptions{Targets: []string{lis.Addr().String()}, Count: 3, Stop: strings.NewReader(""), Out: io.Discard}
	if err := RunClients(t.Context(), o); err == nil {
		t.Error("a refused connection was accepted")
	}
}
