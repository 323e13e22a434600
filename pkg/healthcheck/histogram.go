package healthcheck

import "time"

// histogramBounds are the inclusive upper bounds of a Histogram's buckets. The
// last bucket has none.
var histogramBounds = [...]time.Duration{
	200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// HistogramBounds returns the upper bounds that Histogram.Counts refers to.
func HistogramBounds() []time.Duration {
	bounds := histogramBounds
	return bounds[:]
}

// Histogram counts durations. The zero value is empty; copies are independent.
type Histogram struct {
	// Counts holds one number per bound of HistogramBounds and one for what
	// is above all of them. They are not cumulative.
	Counts [len(histogramBounds) + 1]uint64
	Sum    time.Duration
}

// Count is the number of durations observed.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// QuantileBound is an upper bound of the q-quantile: the bound of the bucket it is in.
// It is 0 for an empty histogram and ok is false where the quantile lies above
// every bound.
func (h Histogram) QuantileBound(q float64) (bound time.Duration, ok bool) {
	total, seen := h.Count(), uint64(0)
	if total == 0 {
		return 0, true
	}
	for i, c := range h.Counts[:len(histogramBounds)] {
		seen += c
		if float64(seen) >= q*float64(total) {
			return histogramBounds[i], true
		}
	}
	return 0, false
}

func (h *Histogram) observe(d time.Duration) {
	i := 0
	for i < len(histogramBounds) && d > histogramBounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += d
}
