package capture

// The programs are compiled like the data plane, see pkg/loader/gen.go.
//go:generate go tool bpf2go -tags linux -target bpfel -type capture_event -type capture_kind tracer ../../bpf/capture_xdp.c -- -I../../bpf/include
