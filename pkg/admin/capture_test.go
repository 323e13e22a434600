package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A capture lasts until the client asks for its end, and the client knows when it
// is over.
func TestCaptureLastsAsLongAsItsClient(t *testing.T) {
	f := &fakeSource{captured: make(chan uint32, 1)}
	c := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := c.Capture(ctx, 7, func() {
		select {
		case <-f.captured:
			t.Error("the capture ended before the client")
		default:
		}
		cancel()
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case program := <-f.captured:
		if program != 7 {
			t.Errorf("program %d ended, want 7", program)
		}
	default:
		t.Error("the client returned before the capture was over")
	}
}

// A client that goes away without a word ends its capture too.
func TestCaptureEndsWithItsConnection(t *testing.T) {
	f := &fakeSource{captured: make(chan uint32, 1)}
	c := serve(t, f)
	conn, err := net.Dial("unix", strings.TrimPrefix(c.address, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "POST /v1/capture?program=7 HTTP/1.1\r\nHost: l4lb\r\n" +
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the gateway answers %s", resp.Status)
	}
	conn.Close()
	if program := <-f.captured; program != 7 {
		t.Errorf("program %d ended, want 7", program)
	}
}

func TestCaptureSaysWhyItIsNot(t *testing.T) {
	c := serve(t, &fakeSource{})
	err := c.Capture(t.Context(), 1, func() { t.Error("started") })
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "one runs already") {
		t.Errorf("a second capture: %v", err)
	}
	started := false
	err = c.Capture(t.Context(), 2, func() { started = true })
	if !started || err == nil || err.Error() != "the daemon stops" {
		t.Errorf("a capture that the daemon ends: %v, started %v", err, started)
	}
	resp, err := c.http.Post(c.base+"/v1/capture?program=x", "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a program that is no number: %s", resp.Status)
	}
}
