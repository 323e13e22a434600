package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// outFile is a file that takes its place when it is finished: a run that fails
// before it has anything to say leaves what was there.
type outFile struct {
	*os.File
	path string // "" when the file is written in place: a pipe or a device
}

// newOutFile starts the file at path. in, which is being read, cannot be it.
func newOutFile(path, in string) (*outFile, error) {
	if there, err := os.Stat(path); err == nil {
		if source, err := os.Stat(in); err == nil && os.SameFile(there, source) {
			return nil, fmt.Errorf("write capture: %s is the capture that is read: name another file", path)
		}
		if !there.Mode().IsRegular() {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return nil, fmt.Errorf("write capture: %w", err)
			}
			return &outFile{File: f}, nil
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("write capture: %w", err)
	}
	return &outFile{File: f, path: path}, nil
}

// finish puts the file in its place, or with keep false removes it.
func (f *outFile) finish(keep bool) error {
	err := f.Close()
	if f.path == "" {
		return err
	}
	if keep && err == nil {
		err = errors.Join(os.Chmod(f.Name(), 0o644), os.Rename(f.Name(), f.path))
	} else {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}
