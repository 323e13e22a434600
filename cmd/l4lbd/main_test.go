package main

import (
	"context"
	"os"
	"testing"
)

// asCommand in the environment makes the test binary the command itself, so
// that tests can run it as a process of its own.
const asCommand = "L4LBD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(context.Background(), &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}, os.Args[1:]...))
	}
	os.Exit(m.Run())
}
