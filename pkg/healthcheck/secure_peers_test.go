package healthcheck

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// certificate makes a self-signed certificate for loopback and www.example.com,
// and returns it with its PEM form.
func certificate(t testing.TB, until time.Time) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{"www.example.com"}, IPAddresses: []net.IP{net.ParseIP(loopback4), net.ParseIP(loopback6)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func serverTLS(t testing.TB, protocols ...string) *tls.Config {
	cert, _ := certificate(t, time.Now().Add(time.Hour))
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols}
}

// overTLS makes a peer's connections TLS.
func overTLS(cfg *tls.Config, handle func(net.Conn)) func(net.Conn) {
	return func(raw net.Conn) {
		c := tls.Server(raw, cfg)
		if c.Handshake() == nil {
			handle(c)
			c.CloseWrite()
		}
	}
}

// webServer is net/http over TLS with HTTP/1.1 and HTTP/2.
func webServer(t testing.TB, addr string, cfg *tls.Config, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, TLSConfig: cfg.Clone(), ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.ServeTLS(ln, "", "")
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return netip.MustParseAddrPort(ln.Addr().String())
}

// grpcServer is a gRPC server with the health service, which tells what is in
// states. A nil config is without TLS.
func grpcServer(t testing.TB, addr string, cfg *tls.Config, states map[string]grpc_health_v1.HealthCheckResponse_ServingStatus) netip.AddrPort {
	t.Helper()
	service := health.NewServer()
	for name, state := range states {
		service.SetServingStatus(name, state)
	}
	return serveGRPC(t, addr, cfg, func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, service) })
}

func serveGRPC(t testing.TB, addr string, cfg *tls.Config, register func(*grpc.Server)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var options []grpc.ServerOption
	if cfg != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg)))
	}
	server := grpc.NewServer(options...)
	register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(ln)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return netip.MustParseAddrPort(ln.Addr().String())
}

// slowHealth answers after the caller has given up, or an error.
type slowHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	err error
}

func (s *slowHealth) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if s.err != nil {
		return nil, s.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// trust makes a pool of certificates in PEM.
func trust(t *testing.T, certs ...[]byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, pem := range certs {
		if !pool.AppendCertsFromPEM(pem) {
			t.Fatal("no certificate")
		}
	}
	return pool
}
