package decap

// The program is compiled like the data plane, see pkg/loader/gen.go.
//go:generate go tool bpf2go -tags linux -target bpfel -type outcome decap ../../bpf/decap_xdp.c -- -I../../bpf/include
