package healthcheck

import (
	"testing"

	"l4lb/pkg/lb"
)

func TestHTTPWeight(t *testing.T) {
	const name = "x-load-balancing-endpoint-weight: "
	tests := []struct {
		name   string
		answer string
		want   lb.Weight
	}{
		{"present", ok200 + name + "2.5\r\nContent-Length: 0\r\n\r\n", lb.Weight{PPM: 2_500_000}},
		{"zero", ok200 + name + "0\r\nContent-Length: 0\r\n\r\n", lb.Weight{}},
		{"absent", body(""), lb.Weight{Err: lb.WeightMissing}},
		{"empty", ok200 + name + "\r\nContent-Length: 0\r\n\r\n", lb.Weight{Err: lb.WeightInvalid}},
		{"invalid", ok200 + name + "heavy\r\nContent-Length: 0\r\n\r\n", lb.Weight{Err: lb.WeightInvalid}},
		{"twice alike", ok200 + name + "3\r\n" + name + "3.0\r\nContent-Length: 0\r\n\r\n", lb.Weight{PPM: 3_000_000}},
		{"twice, different", ok200 + name + "3\r\n" + name + "4\r\nContent-Length: 0\r\n\r\n", lb.Weight{Err: lb.WeightInvalid}},
		{"of a failing backend", "HTTP/1.1 503 Down\r\n" + name + "4\r\nContent-Length: 0\r\n\r\n", lb.Weight{PPM: 4_000_000}},
		{"no answer", "", lb.Weight{Err: lb.WeightUnavailable}},
		{"garbage", "garbage\r\n\r\n", lb.Weight{Err: lb.WeightUnavailable}},
	}
	for _, tt := range tests {
		target := at(serve(t, loopback4, answer(tt.answer)), check(lb.CheckHTTP, nil))
		if got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, target, patient); got.Weight != tt.want {
			t.Errorf("%s: weight %+v, want %+v", tt.name, got.Weight, tt.want)
		}
	}
}
