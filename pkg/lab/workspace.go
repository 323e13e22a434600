package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Where the lab keeps its files. lab.yaml names the admin socket there.
const (
	runDir   = "/run/l4lb-lab"
	pinDir   = "/sys/fs/bpf/l4lb/l4lb-lab" // the daemon's, by the gateway's name
	netnsDir = "/run/netns"
)

// workspace is what a lab has outside of its namespaces: a directory and the
// pinned data plane. It is held by a lock that ends with the process.
type workspace struct {
	dir  string
	lock *os.File
}

// openWorkspace takes the lock and removes what a lab that was killed left
// behind, its namespaces included.
func openWorkspace() (_ *workspace, err error) {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", runDir, err)
	}
	lock, err := os.OpenFile(filepath.Join(runDir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrRunning
		}
		return nil, fmt.Errorf("lock %s: %w", runDir, err)
	}
	w := &workspace{dir: runDir, lock: lock}
	if err := errors.Join(removeNamespaces(netnsDir, namespacePrefix), w.clean()); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what an earlier lab left: %w", err), lock.Close())
	}
	return w, nil
}

// removeNamespaces removes the named namespaces that have the prefix.
func removeNamespaces(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := netns.DeleteNamed(e.Name()); err != nil {
			// A file whose mount is gone already.
			err = os.Remove(path)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clean removes everything but the lock.
func (w *workspace) clean() error {
	errs := []error{os.RemoveAll(pinDir)}
	entries, err := os.ReadDir(w.dir)
	errs = append(errs, err)
	for _, e := range entries {
		if e.Name() != "lock" {
			errs = append(errs, os.RemoveAll(filepath.Join(w.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// configPath is where the gateway's daemon reads its configuration.
func (w *workspace) configPath() string { return filepath.Join(w.dir, "lab.yaml") }

// logPath is where the daemon's log goes.
func (w *workspace) logPath() string { return filepath.Join(w.dir, "l4lbd.log") }

// writeConfig replaces the daemon's configuration in one step.
func (w *workspace) writeConfig(text []byte) error {
	tmp := w.configPath() + ".new"
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.Rename(tmp, w.configPath()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// Close removes the workspace. The lock file stays: a lab that starts now has
// it open already.
func (w *workspace) Close() error {
	return errors.Join(w.clean(), w.lock.Close())
}
