package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/internal/testutil"
)

// fakeWire has links and keeps what was sent.
type fakeWire struct {
	mu    sync.Mutex
	list  []link
	ch    chan link
	opens int
	sent  []sent
	fail  error
}

type sent struct {
	index int
	addr  netip.Addr
	at    time.Duration // since the start
}

var (
	eth0  = link{index: 7, name: "eth0", mac: [6]byte(testutil.GatewayMAC), up: true}
	start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every synctest bubble
)

func (w *fakeWire) open() (wire, error) {
	w.opens++
	w.ch = make(chan link)
	return w, nil
}

func (w *fakeWire) links() ([]link, error) { return w.list, nil }
func (w *fakeWire) events() <-chan link    { return w.ch }
func (w *fakeWire) close()                 {}

func (w *fakeWire) send(index int, frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sent{index: index, at: time.Since(start)}
	if frame[12] == 0x08 {
		s.addr = netip.AddrFrom4([4]byte(frame[28:32]))
	} else {
		s.addr = netip.AddrFrom16([16]byte(frame[22:38]))
	}
	w.sent = append(w.sent, s)
	return w.fail
}

// pass lets time go by and everything that happens then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// taken returns and clears what was sent, one "index addr" each.
func (w *fakeWire) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, s := range w.sent {
		out = append(out, fmt.Sprint(s.index, " ", s.addr))
	}
	w.sent = nil
	slices.Sort(out)
	return out
}

// inBubble runs an announcer over a fake wire under synthetic time.
func inBubble(t *testing.T, w *fakeWire, opts Options, f func(t *testing.T, a *Announcer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnouncer(opts, w.open)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		f(t, a)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func wantSent(t *testing.T, w *fakeWire, want ...string) {
	t.Helper()
	if got := w.taken(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestGainedAddressIsAnnouncedThreeTimesThenPeriodically(t *testing.T) {
	w := &fakeWire{list: []link{eth0}}
	inBubble(t, w, Options{}, func(t *testing.T, a *Announcer) {
		a.Set([]Announcement{{"eth0", testutil.VIP4}, {"eth0", testutil.VIP4}})
		pass(5 * time.Minute)
		want := []time.Duration{0, 200 * time.Millisecond, time.Second, 61 * time.Second, 121 * time.Second, 181 * time.Second, 241 * time.Second}
		if len(w.sent) < len(want) || len(w.sent) > len(want)+1 {
			t.Fatalf("sent %d times, want %d: %v", len(w.sent), len(want), w.sent)
		}
		for i, at := range want {
			early := time.Duration(max(i-2, 0)) * 6 * time.Second // a tenth of each interval
			if got := w.sent[i].at; got > at || got < at-early {
				t.Errorf("frame %d after %s, want %s (at most %s earlier)", i, got, at, early)
			}
		}
	})
}

func TestLostAddressIsSilentAtOnceAndKeptOnesAreNotRepeated(t *testing.T) {
	w := &fakeWire{list: []link{eth0}}
	inBubble(t, w, Options{}, func(t *testing.T, a *Announcer) {
		a.Set([]Announcement{{"eth0", testutil.VIP4}, {"eth0", testutil.VIP6}})
		synctest.Wait()
		wantSent(t, w, "7 192.0.2.10", "7 2001:db8:f::10")
		pass(2 * time.Second)
		w.taken()
		a.Set([]Announcement{{"eth0", testutil.VIP6}})
		pass(2 * time.Second)
		wantSent(t, w) // VIP6 goes on as before
		pass(time.Minute)
		wantSent(t, w, "7 2001:db8:f::10")
		a.Set(nil)
		pass(time.Hour)
		wantSent(t, w)
	})
}

func TestLinkThatComesUpOrChangesIsAnnouncedOn(t *testing.T) {
	down := eth0
	down.up = false
	other := eth0
	other.mac[5]++
	three := []string{"7 192.0.2.10", "7 192.0.2.10", "7 192.0.2.10"}
	w := &fakeWire{list: []link{down}}
	inBubble(t, w, Options{}, func(t *testing.T, a *Announcer) {
		a.Set([]Announcement{{"eth0", testutil.VIP4}, {"eth9", testutil.VIP4B}})
		pass(time.Hour)
		wantSent(t, w)
		for _, step := range []struct {
			what string
			link link
			want []string
		}{
			{"comes up", eth0, three},
			{"is the same", eth0, nil},
			{"goes down", down, nil},
			{"comes up again", eth0, three},
			{"gets another address", other, three},
			{"is another link", link{index: 3, name: "eth1", up: true}, nil},
		} {
			t.Log("link", step.what)
			w.ch <- step.link
			pass(2 * time.Second)
			wantSent(t, w, step.want...)
		}
	})
}

func TestLostMessagesLeadToAResync(t *testing.T) {
	w := &fakeWire{}
	inBubble(t, w, Options{}, func(t *testing.T, a *Announcer) {
		a.Set([]Announcement{{"eth0", testutil.VIP4}})
		synctest.Wait()
		w.list = []link{eth0} // came up unseen
		close(w.ch)
		pass(reopenDelay + time.Millisecond)
		if w.opens != 2 {
			t.Errorf("opened %d times, want 2", w.opens)
		}
		wantSent(t, w, "7 192.0.2.10")
	})
}

func TestManyAddressesAreSentInPortions(t *testing.T) {
	var list []Announcement
	for addr := testutil.ZoneABackend4; len(list) < 10_000; addr = addr.Next() {
		list = append(list, Announcement{"eth0", addr})
	}
	w := &fakeWire{list: []link{eth0}}
	inBubble(t, w, Options{}, func(t *testing.T, a *Announcer) {
		a.Set(list)
		pass(20 * time.Second)
		if len(w.sent) != 3*len(list) {
			t.Errorf("sent %d frames, want %d", len(w.sent), 3*len(list))
		}
		for i := range w.sent[portion:] {
			if d := w.sent[i+portion].at - w.sent[i].at; d < pause {
				t.Fatalf("%d frames within %s", portion+1, d)
			}
		}
	})
}

func TestFailureToSendIsLoggedAndTriedAgain(t *testing.T) {
	var log bytes.Buffer
	w := &fakeWire{list: []link{eth0}, fail: errors.New("no buffers")}
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Interval: time.Second}
	inBubble(t, w, opts, func(t *testing.T, a *Announcer) {
		a.Set([]Announcement{{"eth0", testutil.VIP4}})
		pass(3 * time.Second)
		if len(w.sent) < 4 {
			t.Errorf("gave up after %d frames", len(w.sent))
		}
	})
	if want := "announce 192.0.2.10 on eth0: no buffers"; !strings.Contains(log.String(), want) {
		t.Errorf("no %q in the log:\n%s", want, log.String())
	}
}

func TestRunReportsAWireThatCannotBeOpened(t *testing.T) {
	errDenied := errors.New("denied")
	a := newAnnouncer(Options{}, func() (wire, error) { return nil, errDenied })
	if err := a.Run(t.Context()); !errors.Is(err, errDenied) {
		t.Errorf("got %v, want %v", err, errDenied)
	}
}
