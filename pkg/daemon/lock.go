package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld is returned when another process has an interface or the pinned state.
var ErrHeld = errors.New("is held by another process")

// claim is something that one process at a time may have.
type claim struct {
	what string // for people: "interface eth0"
	file string // name of its lock, unique over namespaces
}

// claims are the gateway's interfaces, each in its network namespace, and its
// directory of pinned state, in its file system.
func (d *Daemon) claims() []claim {
	var list []claim
	for _, iface := range d.cfg.Gateway.Interfaces {
		list = append(list, claim{
			what: "interface " + iface,
			file: fmt.Sprintf("netns-%d-%s.lock", inodeOf("/proc/self/ns/net"), iface),
		})
	}
	return append(list, claim{
		what: "pinned state of gateway " + d.cfg.Gateway.Name,
		file: fmt.Sprintf("gateway-%x-%s.lock", deviceOf(d.opts.BPFDir), d.cfg.Gateway.Name),
	})
}

func deviceOf(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Dev
}

func inodeOf(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// locks are held as long as the process lives: the kernel releases them with
// it, however it ends.
type locks struct{ files []*os.File }

// takeLocks takes all claims or none. The files say who has them.
func takeLocks(dir string, claims []claim, configPath string) (*locks, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create lock directory: %w", err)
	}
	l := &locks{}
	for _, c := range claims {
		f, err := takeLock(filepath.Join(dir, c.file), configPath)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take %s: %w", c.what, err), l.release())
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// takeLock locks a file, creating it. A file that was removed between open and
// lock, by its last holder, is opened anew.
func takeLock(path, configPath string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			defer f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%w: %s", ErrHeld, readHolder(f))
			}
			return nil, err
		}
		if !isAt(f, path) {
			f.Close()
			continue
		}
		if err := writeHolder(f, configPath); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// isAt reports whether the open file is still the one at path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

func writeHolder(f *os.File, configPath string) error {
	if abs, err := filepath.Abs(configPath); err == nil {
		configPath = abs
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+configPath+"\n"), 0)
	return err
}

func readHolder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 4096+32))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 2 {
		return "it is just starting"
	}
	return fmt.Sprintf("pid %s with configuration %s", lines[0], lines[1])
}

// release gives the claims back.
func (l *locks) release() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, os.Remove(f.Name()), f.Close())
	}
	l.files = nil
	return errors.Join(errs...)
}
