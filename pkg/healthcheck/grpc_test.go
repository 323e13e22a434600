package healthcheck

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"l4lb/pkg/lb"
)

func TestGRPCProbe(t *testing.T) {
	states := map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{
		"":      grpc_health_v1.HealthCheckResponse_SERVING,
		"up":    grpc_health_v1.HealthCheckResponse_SERVING,
		"down":  grpc_health_v1.HealthCheckResponse_NOT_SERVING,
		"dunno": grpc_health_v1.HealthCheckResponse_UNKNOWN,
	}
	tests := map[string]Detail{
		"": DetailHealthy, "up": DetailHealthy, "down": DetailNotServing,
		"dunno": DetailNotServing, "missing": DetailNotServing,
	}
	for _, kind := range []lb.HealthCheckType{lb.CheckGRPC, lb.CheckGRPCWithTLS} {
		for _, addr := range []string{loopback4, loopback6} {
			cfg := serverTLS(t, alpnHTTP2)
			if kind == lb.CheckGRPC {
				cfg = nil
			}
			peer := grpcServer(t, addr, cfg, states)
			for service, want := range tests {
				target := at(peer, check(kind, func(c *lb.HealthCheck) { c.GRPCServiceName = service }))
				got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, patient)
				if got.Detail != want || got.Weight.Err != lb.WeightNone {
					t.Errorf("%s %s, service %q: got %+v, want %s", kind, addr, service, got, want)
				}
			}
		}
	}
}

func TestGRPCPeersThatFail(t *testing.T) {
	service := func(h grpc_health_v1.HealthServer) func(*grpc.Server) {
		return func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, h) }
	}
	refuse := func(code codes.Code) func(*grpc.Server) {
		return service(&slowHealth{err: status.Error(code, "refused")})
	}
	servers := []struct {
		name     string
		register func(*grpc.Server)
		timeout  time.Duration
		want     Detail
	}{
		{"no health service", func(*grpc.Server) {}, patient, DetailBadStatus},
		{"hangs", service(&slowHealth{}), impatient, DetailTimeout},
		{"not found", refuse(codes.NotFound), patient, DetailNotServing},
		{"unauthenticated", refuse(codes.Unauthenticated), patient, DetailBadStatus},
		{"internal error", refuse(codes.Internal), patient, DetailBadStatus},
	}
	for _, tt := range servers {
		peer := serveGRPC(t, loopback4, nil, tt.register)
		if got := probeOnce(t, &GRPCProber{Dialer: &Dialer{}}, at(peer, check(lb.CheckGRPC, nil)), tt.timeout); got.Detail != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Detail, got.Text, tt.want)
		}
	}
}

// TestHostileGRPCPeers aims gRPC without TLS at peers that do not speak it.
func TestHostileGRPCPeers(t *testing.T) {
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	tests := []struct {
		name    string
		peer    func(net.Conn)
		timeout time.Duration
		want    Detail
	}{
		{"accepts and says nothing", hang, impatient, DetailTimeout},
		{"settings and nothing more", speak(settings), impatient, DetailTimeout},
		{"drips", drip(settings + settings), impatient, DetailTimeout},
		{"garbage", speak(fill(200)), patient, DetailBadResponse},
		{"HTTP/1.1", speak("HTTP/1.1 400 Bad Request\r\n\r\n"), patient, DetailBadResponse},
		{"resets", func(c net.Conn) { c.Read(make([]byte, 10)); reset(c) }, patient, DetailReset},
		{"nothing listens", nil, patient, DetailRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer := deadPort(t)
			if tt.peer != nil {
				peer = serve(t, loopback4, tt.peer)
			}
			got := probeOnce(t, &GRPCProber{Dialer: &Dialer{}}, at(peer, check(lb.CheckGRPC, nil)), tt.timeout)
			if got.Detail != tt.want {
				t.Errorf("got %s (%s), want %s", got.Detail, got.Text, tt.want)
			}
		})
	}
}
