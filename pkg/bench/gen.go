package bench

// The driver is compiled like the data plane, see pkg/loader/gen.go.
//go:generate go tool bpf2go -tags linux -target bpfel bench ../../bpf/bench_xdp.c
