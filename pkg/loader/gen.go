package loader

// The object is compiled from bpf/ and committed with the Go code that bpf2go
// generates from its types, so that building the daemon needs no clang. The
// Makefile's generate target sets the compiler.
//go:generate go tool bpf2go -tags linux -target bpfel -type reason -type flow_event -type route_value lb ../../bpf/l4lb_xdp.c -- -I../../bpf/include
