package healthcheck

import (
	"net/http"
	"strings"

	"l4lb/pkg/lb"
)

const weightHeader = "X-Load-Balancing-Endpoint-Weight"

// responseWeight reads the weight of an HTTP answer (semantics.md 1.9). A
// header that is repeated with different values is invalid.
func responseWeight(h http.Header) lb.Weight {
	values := h.Values(weightHeader)
	if len(values) == 0 {
		return lb.Weight{Err: lb.WeightMissing}
	}
	w := lb.ParseWeight(strings.Trim(values[0], " \t"))
	for _, v := range values[1:] {
		if lb.ParseWeight(strings.Trim(v, " \t")) != w {
			return lb.Weight{Err: lb.WeightInvalid}
		}
	}
	return w
}
