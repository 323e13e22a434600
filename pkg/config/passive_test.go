package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func TestPassiveSignals(t *testing.T) {
	doc := mustParse(t, `
backendServices:
- {name: off}
- {name: plain, l4lb: {passiveSignals: {enable: true}}}
- {name: tuned, l4lb: {passiveSignals: {enable: true, windowSec: 30, unconfirmedShare: 0.25, minEvents: 100}}}
`)
	want := []*lb.PassiveSignals{
		nil,
		{Window: 10 * time.Second, UnconfirmedShare: 500_000, Minimum: 10},
		{Window: 30 * time.Second, UnconfirmedShare: 250_000, Minimum: 100},
	}
	for i, w := range want {
		if diff := cmp.Diff(w, doc.Config.Services[i].PassiveSignals); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", doc.Config.Services[i].Name, diff)
		}
	}
}

func TestRefusedPassiveSignals(t *testing.T) {
	runBad(t, []badCase{{
		desc: "values out of range",
		yaml: `backendServices:
- {name: a, l4lb: {passiveSignals: true}}
- {name: b, l4lb: {passiveSignals: {enable: yes please, windowSec: 1, unconfirmedShare: 1.5, minEvents: 0}}}
- {name: c, l4lb: {passiveSignals: {enable: true, unconfirmedShare: 0}}}
- {name: d, l4lb: {passiveSignals: {enabled: true}}}
` + gatewayYAML,
		want: []string{
			"2:36: where a mapping belongs: its keys are enable, windowSec",
			"3:45: enable",
			"3:68: windowSec",
			"3:89: unconfirmedShare",
			"3:105: minEvents",
			"4:69: unconfirmedShare 0 would suspect every backend",
			"5:37: unknown key \"enabled\": did you mean enable?",
		},
	}})
}

func TestPassiveSignalsWithoutEffect(t *testing.T) {
	doc := mustParse(t, `
backendServices:
- {name: a, l4lb: {passiveSignals: {minEvents: 5}}}
- {name: b, sessionAffinity: CLIENT_IP, connectionTrackingPolicy: {trackingMode: PER_SESSION}, l4lb: {passiveSignals: {enable: true}}}
- {name: c, connectionTrackingPolicy: {trackingMode: PER_SESSION}, l4lb: {passiveSignals: {enable: true}}}
`)
	if len(doc.Warnings) != 2 || !strings.Contains(doc.Warnings[0].Msg, "has no effect") ||
		!strings.Contains(doc.Warnings[1].Msg, "sees no connections") {
		t.Errorf("warnings: %v", doc.Warnings)
	}
}
