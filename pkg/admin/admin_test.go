package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/selector"
)

// fakeSource answers with fixed values and notes what it is told.
type fakeSource struct {
	err      error
	told     []string
	captured chan uint32 // programs that ended
}

func (f *fakeSource) Status() (Status, error) { return Status{Gateway: "gw-1", Ready: true}, f.err }

func (f *fakeSource) Services() ([]Service, error) { return []Service{{Name: "web"}}, f.err }

func (f *fakeSource) Backends(service string) ([]Backend, error) {
	return []Backend{{Service: service, Instance: "web-a-1"}}, f.err
}

func (f *fakeSource) Zones() ([]Zone, error) { return []Zone{{Name: "zone-a"}}, f.err }

func (f *fakeSource) Explain(_ context.Context, service string, client netip.Addr) (selector.Explanation, error) {
	return selector.Explanation{Service: service, Client: client.String(), Reason: selector.Spilled}, f.err
}

func (f *fakeSource) Drain(_ context.Context, instance, service string) error {
	f.told = append(f.told, "drain "+instance+" of "+service)
	return f.err
}

func (f *fakeSource) Undrain(_ context.Context, instance, service string) error {
	f.told = append(f.told, "undrain "+instance+" of "+service)
	return f.err
}

// Capture is refused for program 1 and ends by itself for program 2.
func (f *fakeSource) Capture(ctx context.Context, program uint32, started func()) error {
	if program == 1 {
		return fmt.Errorf("%w: one runs already", ErrBusy)
	}
	started()
	if program == 2 {
		return errors.New("the daemon stops")
	}
	<-ctx.Done()
	f.captured <- program
	return nil
}

func (f *fakeSource) Flows(filter conntrack.Filter) (conntrack.Report, error) {
	return conntrack.Report{Total: filter.Limit, Backends: map[string]int{filter.Backend: 1}}, f.err
}

// serve serves f on a unix socket and returns a client of it.
func serve(t *testing.T, f *fakeSource) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: NewHandler(f)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return NewClient("unix:" + path)
}

func TestClientGetsWhatTheSourceShows(t *testing.T) {
	f := &fakeSource{}
	c := serve(t, f)
	status, err1 := c.Status(t.Context())
	services, err2 := c.Services(t.Context())
	backends, err3 := c.Backends(t.Context(), "web")
	zones, err4 := c.Zones(t.Context())
	explained, err5 := c.Explain(t.Context(), "web", netip.MustParseAddr("2001:db8::1"))
	flows, err6 := c.Flows(t.Context(), conntrack.Filter{Backend: "web-a-1", Limit: 7})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	got := []any{status.Gateway, services, backends.Backends[0].Service, zones, explained.Service, explained.Client, explained.Reason, flows}
	want := []any{
		"gw-1",
		ServiceList{[]Service{{Name: "web"}}},
		"web",
		ZoneList{[]Zone{{Name: "zone-a"}}},
		"web", "2001:db8::1", selector.Spilled,
		conntrack.Report{Total: 7, Backends: map[string]int{"web-a-1": 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestClientTellsTheSource(t *testing.T) {
	f := &fakeSource{}
	c := serve(t, f)
	if err := errors.Join(c.Drain(t.Context(), "web-a-1", ""), c.Undrain(t.Context(), "web-a-1", "web")); err != nil {
		t.Fatal(err)
	}
	want := []string{"drain web-a-1 of ", "undrain web-a-1 of web"}
	if diff := cmp.Diff(want, f.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	tests := []struct {
		name      string
		err, want error
	}{
		{"an unknown name", ErrUnknown, ErrUnknown},
		{"a gateway that starts", ErrNotReady, ErrNotReady},
		{"a controller that does not answer in time", context.DeadlineExceeded, ErrNotReady},
		{"anything else", errors.New("read map: broken"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, &fakeSource{err: tt.err})
			_, err := c.Services(t.Context())
			if err == nil || err.Error() != tt.err.Error() {
				t.Fatalf("error %v, want the text of %v", err, tt.err)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v is not %v", err, tt.want)
			}
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	tests := []struct {
		name, method, target, contentType string
		status                            int
	}{
		{"a client that is no address", "GET", "/v1/explain?service=web&client=zone-a", "", 400},
		{"a drain of nobody", "POST", "/v1/drain", "application/json", 400},
		{"a drain by a page in a browser", "POST", "/v1/drain?instance=web-a-1", "text/plain", 400},
		{"a drain without a body type", "POST", "/v1/drain?instance=web-a-1", "", 400},
		{"a drain that only asks", "GET", "/v1/drain?instance=web-a-1", "application/json", 405},
		{"a drain that is right", "POST", "/v1/drain?instance=web-a-1", "application/json; charset=utf-8", 200},
		{"something else", "GET", "/v1/nothing", "", 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeSource{}
			req := httptest.NewRequest(tt.method, tt.target, nil)
			req.Header.Set("Content-Type", tt.contentType)
			w := httptest.NewRecorder()
			NewHandler(f).ServeHTTP(w, req)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if told := len(f.told) > 0; told != (tt.status == 200) {
				t.Errorf("the source was told %q", f.told)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "none")
	_, err := NewClient(address).Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "is l4lbd running?") {
		t.Errorf("error %v does not say who does not answer", err)
	}
}
