// Command l4lbd is a Layer-4 passthrough load balancer: the daemon and the
// commands that check it and look at it.
package main

import (
	"context"
	"io"
	"os"
)

// version is set when the binary is built: -ldflags "-X main.version=…".
var version = "unknown"

// env is what a command has of the outside.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// ran is set once a command's own code runs: errors before it are in the
	// usage.
	ran bool
}

func main() {
	os.Exit(run(context.Background(), &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}, os.Args[1:]...))
}
