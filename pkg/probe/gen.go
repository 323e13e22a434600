package probe

// The program is compiled like the data plane, see pkg/loader/gen.go.
//go:generate go tool bpf2go -tags linux -target bpfel -type tunnel probe ../../bpf/probe_tc.c -- -I../../bpf/include
