package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenAtUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	lis, err := listenAt("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v, want 0660", info.Mode(), err)
	}
	if _, err := listenAt("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("second listener: %v", err)
	}
	// A process that is killed does not remove its socket.
	lis.(*net.UnixListener).SetUnlinkOnClose(false)
	lis.Close()
	again, err := listenAt("unix:" + path)
	if err != nil {
		t.Fatalf("with a stale socket: %v", err)
	}
	again.Close()
}

func TestListenAtNeverRemovesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt("unix:" + path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestListenerServesUntilTheContextEnds(t *testing.T) {
	lis, err := listenAt("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	ctx, cancel := context.WithCancel(t.Context())
	l, done := newListener(lis, handler), make(chan error)
	go func() { done <- l.run(ctx) }()
	resp, err := http.Get("http://" + lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := l.close(); err != nil {
		t.Errorf("close after the end: %v", err)
	}
}
