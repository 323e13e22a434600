package neigh

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestInterruptedDumpIsRepeated(t *testing.T) {
	calls := 0
	list, err := dump(func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(list) != 2 || calls != 3 {
		t.Errorf("got %v, %v after %d calls", list, err, calls)
	}
	calls = 0
	_, err = dump(func() ([]int, error) { calls++; return nil, netlink.ErrDumpInterrupted })
	if !errors.Is(err, netlink.ErrDumpInterrupted) || calls != dumpAttempts {
		t.Errorf("got %v after %d calls, want to give up after %d", err, calls, dumpAttempts)
	}
	broken := errors.New("broken")
	if _, err := dump(func() ([]int, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
