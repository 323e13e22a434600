package daemon

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mountBPF makes sure that dir is in a BPF file system, and mounts one where it
// is not.
func mountBPF(dir string) error {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	if err == nil && fs.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	if os.IsNotExist(err) {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("mount BPF file system: %w", err)
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount BPF file system at %s: %w", dir, err)
	}
	return nil
}
