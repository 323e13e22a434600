package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/selector"
)

// clientTimeout bounds a request as a whole.
const clientTimeout = 15 * time.Second

// DefaultAddress is where a gateway's API is unless its configuration says
// otherwise.
const DefaultAddress = "unix:/run/l4lb/admin.sock"

// Client asks a running gateway. Its methods are safe for concurrent use.
type Client struct {
	address string
	http    *http.Client
	base    string
}

// NewClient makes a client of the API at "unix:/path" or "host:port".
func NewClient(address string) *Client {
	c := &Client{address: address, base: "http://" + address}
	transport := &http.Transport{}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		c.base = "http://l4lb"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	c.http = &http.Client{Transport: transport, Timeout: clientTimeout}
	return c
}

// Status asks how the gateway is.
func (c *Client) Status(ctx context.Context) (out Status, err error) {
	return out, c.get(ctx, "status", nil, &out)
}

// Services asks for the backend services.
func (c *Client) Services(ctx context.Context) (out ServiceList, err error) {
	return out, c.get(ctx, "services", nil, &out)
}

// Backends asks for the backends of a service, or of all with "".
func (c *Client) Backends(ctx context.Context, service string) (out BackendList, err error) {
	return out, c.get(ctx, "backends", url.Values{"service": {service}}, &out)
}

// Zones asks for the zones and the traffic between them.
func (c *Client) Zones(ctx context.Context) (out ZoneList, err error) {
	return out, c.get(ctx, "zones", nil, &out)
}

// Flows asks for tracked flows.
func (c *Client) Flows(ctx context.Context, f conntrack.Filter) (out conntrack.Report, err error) {
	return out, c.get(ctx, "flows", filterQuery(f), &out)
}

// Explain asks which backends a client may use, as things are now.
func (c *Client) Explain(ctx context.Context, service string, client netip.Addr) (out selector.Explanation, err error) {
	query := url.Values{"service": {service}, "client": {client.String()}}
	return out, c.get(ctx, "explain", query, &out)
}

// Drain takes a backend out of one service or, with "", of all.
func (c *Client) Drain(ctx context.Context, instance, service string) error {
	return c.post(ctx, "drain", instance, service)
}

// Undrain takes a Drain back.
func (c *Client) Undrain(ctx context.Context, instance, service string) error {
	return c.post(ctx, "undrain", instance, service)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.do(ctx, http.MethodGet, path, query, out)
}

func (c *Client) post(ctx context.Context, path, instance, service string) error {
	query := url.Values{"instance": {instance}, "service": {service}}
	return c.do(ctx, http.MethodPost, path, query, &struct{}{})
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.noAnswer(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readFailure(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	return nil
}

func (c *Client) noAnswer(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("no gateway answers at %s, is l4lbd running? %w", c.address, err)
}

// readFailure makes an error of an answer that is one.
func readFailure(resp *http.Response) error {
	var f failure
	if json.NewDecoder(resp.Body).Decode(&f) != nil || f.Error == "" {
		return fmt.Errorf("the gateway answers %s", resp.Status)
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return remoteError{f.Error, ErrUnknown}
	case http.StatusConflict:
		return remoteError{f.Error, ErrBusy}
	case http.StatusServiceUnavailable:
		return remoteError{f.Error, ErrNotReady}
	}
	return errors.New(f.Error)
}

// remoteError is an error that the gateway told.
type remoteError struct {
	text string
	kind error
}

func (e remoteError) Error() string { return e.text }
func (e remoteError) Unwrap() error { return e.kind }
