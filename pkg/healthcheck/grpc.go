package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// maxMessage bounds the answer of a gRPC health check, in bytes. The right
// answer has two.
const maxMessage = 4096

// GRPCProber implements health checks of types GRPC and GRPC_WITH_TLS: the
// method Check of grpc.health.v1 answers SERVING (semantics.md 5.2).
type GRPCProber struct {
	Dialer *Dialer
	TLS    bool
}

// Probe implements Prober.
func (p *GRPCProber) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return connectFailure(start, err)
	}
	seen := &watched{Conn: c}
	defer c.Close()
	creds := &watchedCredentials{TransportCredentials: insecure.NewCredentials()}
	authority := t.AddrPort().String()
	if p.TLS {
		cfg := p.Dialer.tlsConfig(t, alpnHTTP2)
		creds.TransportCredentials = credentials.NewTLS(cfg)
		authority = cmp.Or(cfg.ServerName, authority)
	}
	client, err := newGRPCClient(seen, creds, t, authority)
	if err != nil {
		return verdict(start, DetailLocalError, "prepare request: "+clip(err.Error()))
	}
	defer client.Close()
	request := &grpc_health_v1.HealthCheckRequest{Service: t.Check.GRPCServiceName}
	answer, err := grpc_health_v1.NewHealthClient(client).Check(ctx, request)
	if failed := creds.failed.Load(); failed != nil {
		return handshakeFailure(start, *failed)
	}
	if err != nil {
		return rpcFailure(start, err, seen.failed.Load())
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return verdict(start, DetailNotServing, "the service is "+answer.Status.String())
	}
	return verdict(start, DetailHealthy, "the service is SERVING")
}

// newGRPCClient speaks gRPC over one connection that is there already. It takes
// nothing from the environment and tries nothing twice.
func newGRPCClient(c net.Conn, creds credentials.TransportCredentials, t Target, authority string) (*grpc.ClientConn, error) {
	var used atomic.Bool
	return grpc.NewClient("passthrough:///"+t.AddrPort().String(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errOneConnection
			}
			return c, nil
		}),
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithUserAgent(userAgent),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(),
		grpc.WithMaxHeaderListSize(maxHead), grpc.WithReadBufferSize(0), grpc.WithWriteBufferSize(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithAuthority(authority))
}

// rpcFailure is the Result of a call that brought no answer. broken is what
// ended the connection, if something did; the call's own error says less.
func rpcFailure(start time.Time, err error, broken *error) Result {
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound:
		return verdict(start, DetailNotServing, "the server does not know the service: "+clip(s.Message()))
	case codes.DeadlineExceeded, codes.Canceled:
		return failure(start, "call", context.DeadlineExceeded)
	case codes.Unavailable, codes.Internal, codes.Unknown:
		if broken != nil {
			return failure(start, "read answer", *broken)
		}
		if s.Code() == codes.Unavailable {
			return verdict(start, DetailBadResponse, "call: "+clip(s.Message()))
		}
	}
	return verdict(start, DetailBadStatus, "gRPC status "+s.Code().String()+": "+clip(s.Message()))
}

// watched remembers what ended the reading of a connection.
type watched struct {
	net.Conn
	failed atomic.Pointer[error]
}

// Read implements net.Conn.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// watchedCredentials remembers why a handshake failed.
type watchedCredentials struct {
	credentials.TransportCredentials
	failed atomic.Pointer[error]
}

// ClientHandshake implements credentials.TransportCredentials.
func (w *watchedCredentials) ClientHandshake(ctx context.Context, name string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := w.TransportCredentials.ClientHandshake(ctx, name, c)
	if err != nil {
		w.failed.CompareAndSwap(nil, &err)
	}
	return secure, info, err
}
