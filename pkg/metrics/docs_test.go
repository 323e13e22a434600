package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

var metricRow = regexp.MustCompile("(?m)^\\| `(l4lb_[a-z0-9_]+)` \\| (\\w+) \\|([^|]*)\\|")

// Each row of the document has the metric's name, type and labels.
func TestMetricsAndTheirDocumentAgree(t *testing.T) {
	text, err := os.ReadFile("../../docs/setup/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(text), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' || r == '`' || r == '—' })
		slices.Sort(labels)
		if documented[m[1]] != "" {
			t.Errorf("%s is documented twice", m[1])
		}
		documented[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	exported := map[string]string{}
	for _, f := range gather(t, newFixture().registry(t)) {
		exported[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labelNames(f), ",")
	}
	if diff := cmp.Diff(exported, documented); diff != "" {
		t.Errorf("docs/setup/metrics.md (-exported +documented):\n%s", diff)
	}
}

// labelNames are those of a family's first metric, sorted.
func labelNames(f *dto.MetricFamily) []string {
	var names []string
	for _, l := range f.Metric[0].Label {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return names
}

// A metric that is described and never shown would be one nobody can rely on.
func TestEveryDescribedMetricIsShown(t *testing.T) {
	shown := gather(t, newFixture().registry(t))
	if got, want := len(shown), len(newDescriptions().all()); got != want {
		t.Errorf("%d metrics are shown, %d are described", got, want)
	}
}
