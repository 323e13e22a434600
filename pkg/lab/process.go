package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"l4lb/internal/netlab"
)

// stopTimeout is how long a process may take to end after SIGTERM.
const stopTimeout = 10 * time.Second

// process is a program that runs inside a namespace. It is killed when the lab
// dies, however that happens.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	err   error // why it ended; valid after done
}

// startProcess starts a program inside a namespace, with its own process group:
// a Ctrl-C is the lab's to handle. Its standard input is a pipe.
func startProcess(ns *netlab.Namespace, stdout, stderr io.Writer, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// Pdeathsig is sent when the thread ends that started the process: that
	// thread waits below until the process is gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{cmd: cmd, stdin: stdin, done: make(chan struct{})}
	started := make(chan error, 1)
	ended := ns.Go(func() error {
		err := cmd.Start()
		started <- err
		if err != nil {
			return err
		}
		return cmd.Wait()
	})
	go func() {
		p.err = <-ended
		// Where the namespace could not be entered, nothing was started.
		select {
		case started <- p.err:
		default:
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", name, ns.Name(), err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal; a process that is gone is an error.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

// kill ends the process at once and returns when it is gone.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.done
	return err
}

// stop ends the process and returns its error, if it ended otherwise than by
// the signal.
func (p *process) stop() error {
	if !p.running() {
		return p.err
	}
	if err := p.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("process %d did not end within %s of SIGTERM", p.cmd.Process.Pid, stopTimeout), p.kill())
	}
}

// tail returns the last lines of a file, for error messages.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
