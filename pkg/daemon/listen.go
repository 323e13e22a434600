package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/pkg/admin"
)

const (
	// socketMode lets root and the socket's group in.
	socketMode = 0o660
	// closeTimeout bounds how long requests in flight may hold up the end.
	closeTimeout = time.Second
)

// listener serves one address.
type listener struct {
	lis    net.Listener
	server *http.Server
	// answering are the requests in flight: they read what is closed later.
	answering sync.WaitGroup
}

func newListener(lis net.Listener, handler http.Handler) *listener {
	l := &listener{lis: lis}
	counted := func(w http.ResponseWriter, r *http.Request) {
		l.answering.Add(1)
		defer l.answering.Done()
		handler.ServeHTTP(w, r)
	}
	l.server = &http.Server{Handler: http.HandlerFunc(counted), ReadHeaderTimeout: 5 * time.Second}
	return l
}

// run serves until ctx ends. No request is in flight when it returns.
func (l *listener) run(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if l.server.Shutdown(end) != nil {
			l.server.Close()
		}
	}()
	err := l.server.Serve(l.lis)
	if ctx.Err() != nil {
		<-stopped
		l.answering.Wait()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", l.lis.Addr(), err)
}

func (l *listener) close() error {
	if err := l.lis.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listenAt listens at "unix:/path" or "host:port".
func listenAt(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return net.Listen("tcp", address)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create directory of socket: %w", err)
	}
	lis, err := net.Listen("unix", path)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		lis, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		lis.Close()
		return nil, err
	}
	return lis, nil
}

// removeStale removes a socket that a dead process left. It removes nothing
// that is not a socket or that somebody answers at.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("listen at %s: there is something that is not a socket", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("listen at %s: another process answers there", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("listen at %s: %w", path, err)
	}
	return os.Remove(path)
}

// listen opens the gateway's listeners; Run serves them.
func (d *Daemon) listen() error {
	if at := d.cfg.Gateway.MetricsListen; at != "" {
		lis, err := listenAt(at)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		handler, err := d.metricsHandler()
		if err != nil {
			lis.Close()
			return err
		}
		mux := d.probes(http.NewServeMux())
		mux.Handle("GET /metrics", handler)
		d.listeners = append(d.listeners, newListener(lis, mux))
	}
	lis, err := listenAt(d.cfg.Gateway.AdminListen)
	if err != nil {
		return fmt.Errorf("serve the local API: %w", err)
	}
	d.listeners = append(d.listeners, newListener(lis, d.probes(admin.NewHandler(d))))
	return nil
}

// probes adds what tells a supervisor how the gateway is: alive, and forwarding
// by its configuration.
func (d *Daemon) probes(mux *http.ServeMux) *http.ServeMux {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !d.Ready() {
			http.Error(w, "not forwarding by the configuration", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
