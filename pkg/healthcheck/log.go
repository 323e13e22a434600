package healthcheck

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"l4lb/pkg/lb"
)

// Messages of log entries. msgDetail is written only for checks with
// logConfig.enable, where the reason changes and the state does not.
const (
	msgState      = "health state changed"
	msgDetail     = "health check result changed"
	msgLocalError = "health check cannot be made by this gateway"
)

// logEntry holds what an entry says, so that it is written without the lock.
type logEntry struct {
	message         string
	target          Target
	checks          string
	previous, state lb.HealthState
	previousDetail  Detail
	result          Result
	source          netip.Addr
	at              time.Time
}

func newLogEntry(r *record, previous lb.HealthState, previousDetail Detail, message string) *logEntry {
	return &logEntry{
		message: message, target: r.target, checks: strings.Join(r.checks, ","),
		previous: previous, state: r.machine.state, previousDetail: previousDetail,
		result: r.last, source: r.source, at: r.lastAt,
	}
}

// write logs with the fields of semantics.md 5.4, in this project's spelling.
func (c *Checker) write(e *logEntry) {
	ctx := context.Background()
	switch e.message {
	case msgLocalError:
		c.log.LogAttrs(ctx, slog.LevelWarn, msgLocalError, e.fields()...)
	case msgDetail:
		c.log.LogAttrs(ctx, slog.LevelInfo, msgDetail, e.fields()...)
	default:
		c.log.LogAttrs(ctx, slog.LevelInfo, msgState, e.fields()...)
	}
}

func (e *logEntry) fields() []slog.Attr {
	return []slog.Attr{
		slog.String("health_check", e.checks),
		slog.String("health_check_protocol", string(e.target.Check.Type)),
		slog.String("ip_address", e.target.Endpoint().String()),
		slog.String("probe_source_ip", addrText(e.source)),
		slog.String("target_ip", e.target.Addr.String()),
		slog.Int("target_port", int(e.target.Check.Port)),
		slog.String("health_state", string(e.state)),
		slog.String("previous_health_state", string(e.previous)),
		slog.String("detailed_health_state", string(e.result.Detail)),
		slog.String("previous_detailed_health_state", string(e.previousDetail)),
		slog.String("probe_result_text", e.result.Text),
		slog.String("response_latency", e.result.Latency.String()),
		slog.Time("probe_completion_timestamp", e.at),
	}
}

// addrText is an address for people, "" where there is none.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
