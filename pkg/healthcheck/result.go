package healthcheck

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"l4lb/pkg/lb"
)

// Detail is the outcome of one probe: detailedHealthState of semantics.md 5.4.
// Each value is explained in docs/setup/health-checks.md.
type Detail string

const (
	DetailUnknown     Detail = "UNKNOWN"
	DetailHealthy     Detail = "HEALTHY"
	DetailTimeout     Detail = "TIMEOUT"
	DetailRefused     Detail = "REFUSED"
	DetailReset       Detail = "RESET"
	DetailClosed      Detail = "CLOSED"
	DetailUnreachable Detail = "UNREACHABLE"
	DetailBadStatus   Detail = "BAD_STATUS"
	DetailBadResponse Detail = "BAD_RESPONSE"
	DetailTLSError    Detail = "TLS_ERROR"
	DetailNotServing  Detail = "NOT_SERVING"
	DetailLocalError  Detail = "LOCAL_ERROR"
)

// Details lists every Detail, for metrics labels and documentation.
func Details() []Detail {
	return []Detail{
		DetailUnknown, DetailHealthy, DetailTimeout, DetailRefused, DetailReset, DetailClosed,
		DetailUnreachable, DetailBadStatus, DetailBadResponse, DetailTLSError, DetailNotServing, DetailLocalError,
	}
}

// Result is what one probe found.
type Result struct {
	Detail Detail
	// Text explains Detail to a person: probeResultText of semantics.md 5.4.
	// What it quotes of the peer's answer is short and escaped.
	Text string
	// Latency is the time from the start of the probe to its verdict.
	Latency time.Duration
	// Weight is what an HTTP answer asked for, whatever its status. It is
	// WeightUnavailable without an answer and WeightNone for other protocols.
	Weight lb.Weight
	// Source is the local address the probe came from, not valid where it got
	// no connection.
	Source netip.Addr
}

// OK reports whether the probe passed.
func (r Result) OK() bool { return r.Detail == DetailHealthy }

// Inconclusive reports that the gateway could not make the probe, so that it
// says nothing about the backend and moves no state: a gateway out of
// descriptors must not declare all its backends dead.
func (r Result) Inconclusive() bool { return r.Detail == DetailLocalError }

// maxErrorText bounds the part of a Text that comes from an error, in bytes.
const maxErrorText = 160

// noWeight is the weight of protocols that carry none.
var noWeight = lb.Weight{Err: lb.WeightNone}

// verdict builds the Result of a probe that began at start.
func verdict(start time.Time, detail Detail, text string) Result {
	return Result{Detail: detail, Text: text, Latency: time.Since(start), Weight: noWeight}
}

// failure builds the Result of a probe whose step op ended with err.
func failure(start time.Time, op string, err error) Result {
	inner := err
	for next := inner; next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return verdict(start, classify(err), op+": "+clip(inner.Error()))
}

// connectFailure is the Result of a probe that got no connection. What is not
// from the kernel or the clock is then the gateway's own mistake, such as a
// source address of the wrong family.
func connectFailure(start time.Time, err error) Result {
	r := failure(start, "connect", err)
	if r.Detail == DetailBadResponse {
		r.Detail = DetailLocalError
	}
	return r
}

// clip makes an error text that may quote a peer short and printable.
func clip(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), maxErrorText)])
}

// classify finds the Detail of a network error. An error it does not know
// counts against the gateway only where the kernel's number says so.
func classify(err error) Detail {
	var netErr net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout() {
		return DetailTimeout
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return DetailClosed
		}
		return DetailBadResponse
	}
	switch errno {
	case syscall.ECONNREFUSED:
		return DetailRefused
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return DetailReset
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EAGAIN,
		syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EAFNOSUPPORT:
		return DetailLocalError
	}
	return DetailUnreachable
}
