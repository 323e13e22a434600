package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionInfo is what `version` prints.
type versionInfo struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
}

func newVersionCommand(e *env) *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "version",
		Short: "Print what this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: version, GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			return o.print(e.stdout, v, func(t *table) {
				t.line(fmt.Sprintf("l4lbd %s %s %s/%s", v.Version, v.GoVersion, v.OS, v.Arch))
			})
		},
	}
	o.register(c)
	return c
}
