// Package netns has the end-to-end tests: the real daemon, real sockets, in network
// namespaces.
package netns

import (
	"context"
	"os"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/lab"
)

// labTimeout is for a machine that is busy; a lab takes half a minute.
const labTimeout = 3 * time.Minute

// What `l4lbd lab` shows must hold: see its steps.
func TestTheStoryOfTheLabHolds(t *testing.T) {
	testutil.RequireRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), labTimeout)
	defer cancel()
	if err := lab.Run(ctx, lab.Options{Executable: executable(), Out: os.Stdout}); err != nil {
		t.Fatal(err)
	}
}

// Ten thousand connections talk while backends flap and the configuration
// changes fifty times: those whose backend stays are neither reset nor moved,
// and those of the one backend that is taken out end.
func TestConnectionsSurviveFlappingAndReloads(t *testing.T) {
	testutil.RequireRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), labTimeout)
	defer cancel()
	o := lab.LoadOptions{
		Options:     lab.Options{Executable: executable(), Out: os.Stdout},
		Connections: 10_000, Reloads: 50,
	}
	if _, err := lab.Load(ctx, o); err != nil {
		t.Fatal(err)
	}
}
